"""Requests to the owner. Each is exact: its grant covers this project and this value, and nothing else."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from trainwright.tools.workspace.settings import ProjectLimits
from trainwright.trainer.base.errors import ConfigurationError, near, near_matches, same
from trainwright.trainer.config.goal import why_not_meant
from trainwright.trainer.config.meant_values import as_meant, fits

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.workspace import Workspace

ENDS = "phases/WORKFLOW.md"
OPERATION = re.compile(r"[\w:.<>~()= ]{1,120}", re.ASCII)
MISSING_GIT = "missing_git"
"""The exemption of user code that stands in no git repository, where the owner demands one."""
ALIKE_SAMPLES = "alike_samples"
"""The exemption of splits that hold more almost equal samples than chance explains."""
NO_OPERATIONS = frozenset({MISSING_GIT, ALIKE_SAMPLES})


class Wish(BaseModel):
    """One thing that only the owner may allow."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["limit", "code_root", "exemption", "deletion", "acceptance", "goal", "alert"]
    name: str
    """The limit's name; the folder; the operation, or one of NO_OPERATIONS; the project; the goal's metric; the id of
    an alert."""
    value: float | None = None
    """The limit's new value; the least good value of the metric that is accepted; the goal's new target."""

    def __str__(self) -> str:
        """In a few words: `limit trials = 500`."""
        name = self.name if self.name.isprintable() else repr(self.name)
        return f"{self.kind} {name}" + (f" = {self.value:g}" if self.value is not None else "")


def limit_wishes(limits: dict[str, Any]) -> list[Wish]:
    """Return a wish for each limit."""
    return [Wish(kind="limit", name=name, value=float(value)) for name, value in limits.items()]


def root_wishes(workspace: Workspace, root: Path) -> list[Wish]:
    """Return the wish for a folder of code that lies in none of the owner's roots; none where it does."""
    roots = workspace.settings.allowed_roots(workspace.path)
    return [] if any(root.is_relative_to(one) for one in roots) else [Wish(kind="code_root", name=str(root))]


def checked_wishes(
    workspace: Workspace, limits: dict[str, Any], *, within: tuple[str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Return the limits that a project asks for.

    Args:
        within: the argument that holds them, and all that it holds, where they are no argument of their own.

    Raises:
        ConfigurationError: unknown names or wrong values; the remedy gives the argument whole.
    """
    limits = limits_as_meant(limits)
    try:
        whole = ProjectLimits.model_validate({**workspace.settings.limits.model_dump(), **limits})
        return {name: getattr(whole, name) for name in limits}
    except ValidationError as error:
        problems = [_explain_limit(problem) for problem in error.errors(include_url=False)]
        raise ConfigurationError(
            f"The limits are not valid: {'; '.join(problems[:8])}.",
            remedy=f"Known limits: {', '.join(ProjectLimits.model_fields)}; positive numbers.",
            details={"problems": problems, "amend": _amend(_near_limits(limits), within)},
        ) from None


def limits_as_meant(limits: dict[str, Any]) -> dict[str, Any]:
    """Return limits by our names, with numbers for what is one in another form."""
    found: dict[str, Any] = {}
    for key, value in limits.items():
        name = same(key, ProjectLimits.model_fields) or key
        about = ProjectLimits.model_fields.get(name)
        found[name] = value if about is None else as_meant(Annotated[about.annotation, *about.metadata], value)
    return found


def _near_limits(limits: dict[str, Any]) -> dict[str, Any]:
    """Return the limits under the names nearest to those given, without those of wrong values."""
    named = {next(iter(near(key, ProjectLimits.model_fields)), ""): value for key, value in limits.items()}
    whole = ProjectLimits.model_fields
    return {
        key: value
        for key, value in limits_as_meant(named).items()
        if key in whole and fits(Annotated[whole[key].annotation, *whole[key].metadata], value)
    }


def _amend(limits: dict[str, Any], within: tuple[str, dict[str, Any]] | None) -> dict[str, Any]:
    if within is None:
        return {"limits": limits or None}
    name, held = within
    rest = {key: value for key, value in held.items() if key != "limits"}
    return {name: {**rest, **({"limits": limits} if limits else {})} or None}


def exemption_wish(name: str) -> Wish:
    """Return the wish for an exemption. Raises ConfigurationError on what is no operation's name."""
    if not OPERATION.fullmatch(name):
        raise ConfigurationError(
            f"{name[:80]!r} is not the name of an operation.",
            remedy=f"Use the name that the refused run tells, for example 'put_', "
            f"{MISSING_GIT!r} or {ALIKE_SAMPLES!r}.",
            document="reproducibility/determinism.md",
        )
    return Wish(kind="exemption", name=name)


def ending_wishes(goal: dict[str, Any], asked: dict[str, Any], alerts: Iterable[str]) -> list[Wish]:
    """Return the wishes by which a project may end below its goal, or with an open alert.

    Args:
        goal: the project's goal as it was created: metric, direction, target.
        asked: accept (the least good value of the goal's metric), goal ({target}), alert (an id).
        alerts: the ids of all alerts that there are.

    Raises:
        ConfigurationError: a value that is no finite number, or no id of an alert.
    """
    wishes = []
    for kind, value in (("acceptance", asked.get("accept")), ("goal", (asked.get("goal") or {}).get("target"))):
        if value is None:
            continue
        is_number = not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
        if not is_number or (unmeant := why_not_meant({**goal, "target": value})):
            raise ConfigurationError(
                f"{value!r} is no value of {goal['metric']}{f': {unmeant}' if is_number else ''}.",
                remedy=f"Name a number: ask_owner={{'accept': {goal['target']}}} or {{'goal': {{'target': …}}}}.",
                document=ENDS,
            )
        wishes.append(Wish.model_validate({"kind": kind, "name": str(goal["metric"]), "value": float(value)}))
    if (alert := asked.get("alert")) is not None:
        if alert not in alerts:
            known = ", ".join(sorted(alerts))
            raise ConfigurationError(
                f"There is no alert {str(alert)[:60]!r}.{near_matches(str(alert)[:60], alerts)}",
                remedy=f"Name one of {known}; project_status shows those that are open.",
                document=ENDS,
            )
        wishes.append(Wish(kind="alert", name=alert))
    return wishes


def _explain_limit(problem: Any) -> str:
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return f"unknown limit `{key[:80]}`{near_matches(key, ProjectLimits.model_fields).rstrip('.')}"
    return f"`{key}` = {repr(problem['input'])[:60]}: {problem['msg']}"
