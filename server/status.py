"""`trainwright status`: projects, their phases and runs, with bars on a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.server.terminal import Terminal, bar
from trainwright.server.wording import counted, next_line, number
from trainwright.tools.projects import ProjectStatus, project_status
from trainwright.tools.training_orchestrator import refresh_run
from trainwright.tools.workspace import Workspace

if TYPE_CHECKING:
    from trainwright.tools.projects.status import RunLine

PHASES = ("planning", "baseline", "diagnostics", "optimization", "finalization")
MARKS = {"passed": "x", "skipped": "-", "accepted": "a", "concluded": "c", "stale": "!", "open": ">"}
SHOWN_RUNS = 6


def show_status(path: Path, *, as_json: bool) -> None:
    """Print every project of the workspace. Raises TrainwrightError."""
    workspace = Workspace.open(path)
    try:
        listed = project_status(workspace)
        assert isinstance(listed, list)  # noqa: S101 - without a name it is the list
        statuses = [project_status(workspace, summary.project) for summary in listed]
        projects = [status for status in statuses if isinstance(status, ProjectStatus)]
        terminal = Terminal()
        if as_json:
            terminal.line(json.dumps([project.model_dump(mode="json") for project in projects], indent=2))
            return
        if not projects:
            terminal.line(f"No projects in {path}.")
        for project in projects:
            _show(terminal, workspace, project)
    finally:
        workspace.close()


def _show(terminal: Terminal, workspace: Workspace, project: ProjectStatus) -> None:
    on = f" on {project.finished_on}" if project.finished_on else ""
    place = f"finished{on} (release {project.release})" if project.finished else f"in {project.phase}"
    terminal.line(f"{project.project}: {place}; goal {project.goal}", "bold")
    gates = [f"[{MARKS.get(project.gates[phase].split(':')[0], ' ')}] {phase}" for phase in PHASES]
    terminal.line("  " + "  ".join(gates))
    for remark in project.remarks:
        terminal.line(f"  {'since then: ' if project.finished else ''}{remark}", "dim")
    for run in project.runs[:SHOWN_RUNS]:
        terminal.line(f"  {_run_line(workspace, run)}")
    if project.next:
        terminal.line(f"  {next_line(project.next)}", "dim")


def _run_line(workspace: Workspace, run: RunLine) -> str:
    view = refresh_run(workspace, run.run_id)
    best = f", best {number(run.best)}" if run.best is not None else ""
    alerts = f", {counted(len(view.alerts), 'alert')}" if view.alerts else ""
    return f"{bar(view.step, view.total_steps)} {run.kind:9} {view.state:11} {run.run_id}{best}{alerts}"
