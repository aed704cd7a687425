"""`trainwright status`: projects, their phases and runs, with bars on a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.server.commands.terminal import Terminal, bar
from trainwright.server.format import counted, next_line, number
from trainwright.tools.projects import ProjectStatus, newest_first, overview, project_status
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import TrainwrightError

if TYPE_CHECKING:
    from trainwright.tools.projects.status import RunLine

PHASES = ("planning", "baseline", "diagnostics", "optimization", "finalization")
MARKS = {"passed": "x", "skipped": "-", "accepted": "a", "concluded": "c", "stale": "!", "open": ">"}
SHOWN_RUNS = 6


def show_status(path: Path, *, as_json: bool) -> None:
    """Print every project of the workspace. Raises TrainwrightError."""
    workspace = Workspace.open(path)
    try:
        terminal = Terminal()
        if as_json:
            statuses = [project_status(workspace, name) for name in newest_first(workspace)]
            projects = [status for status in statuses if isinstance(status, ProjectStatus)]
            terminal.line(json.dumps([project.model_dump(mode="json") for project in projects], indent=2))
            return
        projects = overview(workspace)
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
        terminal.line(f"  {_run_line(workspace, project, run)}")
    if project.next:
        terminal.line(f"  {next_line(project.next)}", "dim")


def _run_line(workspace: Workspace, project: ProjectStatus, run: RunLine) -> str:
    try:
        status = workspace.run_directory(project.project, run.run_id).status()
        done, total = status.step, status.total_steps
    except TrainwrightError:  # the state says so
        done, total = 0, None
    open_alerts = sum(alert.run_id == run.run_id for alert in project.alerts)
    best = f", best {number(run.best)}" if run.best is not None else ""
    alerts = f", {counted(open_alerts, 'alert')}" if open_alerts else ""
    return f"{bar(done, total)} {run.kind:9} {run.state:11} {run.run_id}{best}{alerts}"
