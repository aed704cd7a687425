"""Grants: what only the owner may allow. Each is exact: it covers this project and this value, and nothing else."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ValidationError

from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.settings import ProjectLimits
from trainwright.trainer.base.errors import ConfigurationError, near, near_matches, same
from trainwright.trainer.base.records import Closed
from trainwright.trainer.config.goal import goal_problem
from trainwright.trainer.config.value_coercion import coerced, fits

ENDS = "phases/WORKFLOW.md"
OPERATION = re.compile(r"[\w:.<>~()= ]{1,120}", re.ASCII)
MISSING_GIT = "missing_git"
"""The exemption of user code outside a git repository, if the owner requires one."""
ALIKE_SAMPLES = "alike_samples"
"""The exemption of splits with more near-duplicates than chance explains."""
NO_OPERATIONS = frozenset({MISSING_GIT, ALIKE_SAMPLES})


class Grant(Closed):
    """One thing that only the owner may allow."""

    kind: Literal["limit", "code_root", "exemption", "deletion", "acceptance", "goal", "alert", "promotion"]
    name: str
    """The limit's name; the folder; the operation, or one of NO_OPERATIONS; the project; the goal's metric; the id of
    an alert; the alias that is to move."""
    value: float | None = None
    """The limit's new value; the worst accepted value of the metric; the goal's new target; the model's version."""

    def __str__(self) -> str:
        """In a few words: `limit trials = 500`."""
        name = self.name if self.name.isprintable() else repr(self.name)
        return f"{self.kind} {name}" + (f" = {self.value:g}" if self.value is not None else "")


def limit_grants(limits: dict[str, Any]) -> list[Grant]:
    """Return one grant per limit."""
    return [Grant(kind="limit", name=name, value=float(value)) for name, value in limits.items()]


def root_grants(workspace: Workspace, root: Path) -> list[Grant]:
    """Return the grant that code in a folder needs; none if the folder is within the owner's roots."""
    roots = workspace.settings.allowed_roots(workspace.path)
    return [] if any(root.is_relative_to(one) for one in roots) else [Grant(kind="code_root", name=str(root))]


def checked_limits(
    workspace: Workspace, limits: dict[str, Any], *, within: tuple[str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Return the limits that a project requests.

    Args:
        within: name and content of the argument that holds them, if they are not an argument themselves.

    Raises:
        ConfigurationError: unknown names or wrong values; the remedy has the complete argument.
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
    """Return limits under our names, with values in other notations as numbers."""
    found: dict[str, Any] = {}
    for key, value in limits.items():
        name = same(key, ProjectLimits.model_fields) or key
        about = ProjectLimits.model_fields.get(name)
        found[name] = value if about is None else coerced(Annotated[about.annotation, *about.metadata], value)
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


def exemption_grant(name: str) -> Grant:
    """Return the grant of an exemption. Raises ConfigurationError if it is not an operation's name."""
    if not OPERATION.fullmatch(name):
        raise ConfigurationError(
            f"{name[:80]!r} is not the name of an operation.",
            remedy=f"Use the name that the refused run reports, for example 'put_', "
            f"{MISSING_GIT!r} or {ALIKE_SAMPLES!r}.",
            document="reproducibility/determinism.md",
        )
    return Grant(kind="exemption", name=name)


def ending_grants(goal: dict[str, Any], asked: dict[str, Any], alerts: Iterable[str]) -> list[Grant]:
    """Return the grants that let a project end below its goal, or with an open alert.

    Args:
        goal: the project's goal as it was created: metric, direction, target.
        asked: accept (the least good value of the goal's metric), goal ({target}), alert (an id).
        alerts: the ids of all known alerts.

    Raises:
        ConfigurationError: a value is not a finite number, or an alert's id is unknown.
    """
    grants = []
    for kind, value in (("acceptance", asked.get("accept")), ("goal", (asked.get("goal") or {}).get("target"))):
        if value is None:
            continue
        is_number = not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
        if not is_number or (unmeant := goal_problem({**goal, "target": value})):
            raise ConfigurationError(
                f"{value!r} is not a value of {goal['metric']}{f': {unmeant}' if is_number else ''}.",
                remedy=f"Name a number: ask_owner={{'accept': {goal['target']}}} or {{'goal': {{'target': …}}}}.",
                document=ENDS,
            )
        grants.append(Grant.model_validate({"kind": kind, "name": str(goal["metric"]), "value": float(value)}))
    if (alert := asked.get("alert")) is not None:
        if alert not in alerts:
            known = ", ".join(sorted(alerts))
            raise ConfigurationError(
                f"There is no alert {str(alert)[:60]!r}.{near_matches(str(alert)[:60], alerts)}",
                remedy=f"Name one of {known}; project_status shows the open ones.",
                document=ENDS,
            )
        grants.append(Grant(kind="alert", name=alert))
    return grants


def _explain_limit(problem: Any) -> str:
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return f"unknown limit `{key[:80]}`{near_matches(key, ProjectLimits.model_fields).rstrip('.')}"
    return f"`{key}` = {repr(problem['input'])[:60]}: {problem['msg']}"


LIMIT = "Raises this limit for this project only; shared limits stay. Lower it in settings.yaml to undo it."
CODE_ROOT = "Code and data below this folder may be read for this project, and the code there runs with your rights."
GIT = "The project's code need not be in a git repository: its files are still digested, their history is unknown."
ALIKE = (
    "The project's splits may hold more near-duplicates than chance explains: results on held-out samples may "
    "be memorised, not learned, and every report will say so."
)
DELETION = (
    "Removes the project's runs, checkpoints, models and reports permanently, at the agent's next call. Its "
    "ledger stays, and its use stays counted."
)
OPERATION_ALLOWS = (
    "Runs of this project may use this operation, though it has no deterministic implementation: training again may "
    "give other weights, and every report will say so."
)
ACCEPTANCE = (
    "The project may end below its goal with this value of its metric or a better one. The card begins by saying that "
    "the goal was not reached, and that you accepted it."
)
GOAL = "The project's target becomes this value; metric and direction stay. Every report names both goals."
ALERT = "The project may continue while this alert is open. The card says so, and that you accepted it."
PROMOTION = (
    "The alias moves once to this version of the project's model, whatever its gate measured against the version "
    "before. The ledger says that you allowed it."
)


def meaning(grant: Grant) -> str:
    """Return what a grant allows."""
    if grant.kind == "exemption":
        return {MISSING_GIT: GIT, ALIKE_SAMPLES: ALIKE}.get(grant.name, OPERATION_ALLOWS)
    others = {"limit": LIMIT, "code_root": CODE_ROOT, "deletion": DELETION}
    return (others | {"acceptance": ACCEPTANCE, "goal": GOAL, "alert": ALERT, "promotion": PROMOTION})[grant.kind]
