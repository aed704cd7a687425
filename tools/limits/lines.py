"""Lines of used and remaining amounts, one per limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.limits.amounts import effective_limits
from trainwright.tools.limits.reservation import Line, limit_table
from trainwright.tools.limits.trials import count_trials
from trainwright.tools.workspace.kept import note_whole_workspace

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Project

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
