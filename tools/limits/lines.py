"""Limits of a project: its requests, cut down to the owner's present limits, with grants and use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.limits.reservation import Line, limit_table
from trainwright.tools.limits.trials import count_trials
from trainwright.tools.owner import granted
from trainwright.tools.workspace.kept import note_whole_workspace
from trainwright.tools.workspace.settings import LEAST, ProjectLimits

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.owner import Grant
    from trainwright.tools.workspace import Settings, Workspace
    from trainwright.tools.workspace.tables import Project


def effective_limits(session: Session, workspace: Workspace, project: Project) -> ProjectLimits:
    """Return the limits in force for the project."""
    grants = [request.grant for request in granted(session, workspace, project.name)]
    return limits_under(workspace.settings, project.limits, grants)


def limits_under(settings: Settings, requested: dict[str, Any], grants: list[Grant]) -> ProjectLimits:
    """Return the limits of a project that requested these, under the owner's settings and grants."""
    values: dict[str, Any] = {
        name: (max if name in LEAST else min)(requested.get(name, value), value)
        for name, value in settings.limits.model_dump().items()
    }
    for grant in grants:
        if grant.kind == "limit" and grant.value is not None:
            looser = min if grant.name in LEAST else max
            values[grant.name] = type(values[grant.name])(looser(values[grant.name], grant.value))
    return ProjectLimits.model_validate(values)


MEGABYTE = 1e6


def limit_lines(session: Session, workspace: Workspace, project: Project) -> dict[str, str]:
    """Return the used, reserved and remaining amount of every limit of the project.

    A limit of the workspace has a line where it leaves less than the project's own; money, where it has a price.
    """
    return workspace.kept.answer(session, project.name, "limits", lambda: _lines(session, workspace, project)).copy()


def _lines(session: Session, workspace: Workspace, project: Project) -> dict[str, str]:
    note_whole_workspace()
    allowed = effective_limits(session, workspace, project)
    table = limit_table(session, workspace, project, look=True)
    own, whole = count_trials(session, project.name), count_trials(session)
    table["trials"] = [
        Line("trials", own.made, own.reserved, allowed.trials),
        Line("workspace_limits.trials", whole.made, whole.reserved, workspace.settings.workspace_limits.trials),
    ]
    if not workspace.settings.price_per_gpu_hour:
        del table["money"]
    lines: dict[str, str] = {}
    for first, second in table.values():
        lines |= dict([_worded(first), *([_worded(second)] if second.left < first.left else [])])
    single = {"run_wall_clock_seconds": allowed.run_wall_clock_seconds, "baseline_minutes": allowed.baseline_minutes}
    return lines | {name: f"at most {_number(most)}" for name, most in single.items()}


def _worded(line: Line) -> tuple[str, str]:
    unit, name = (
        (MEGABYTE, line.name.replace("bytes", "megabytes")) if line.name.endswith("bytes") else (1.0, line.name)
    )
    used, reserved, allowed, left = (value / unit for value in (line.used, line.reserved, line.allowed, line.left))
    held = f", {_number(reserved)} reserved" if reserved else ""
    return name, f"{_number(used)} of {_number(allowed)}{held}, {_number(max(0.0, left))} left"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
