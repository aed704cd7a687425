"""`trainwright status`, `study` and `dashboard`: projects, their phases and runs, with bars on a terminal."""

from __future__ import annotations

import json
import signal
import threading
import webbrowser
from contextlib import closing
from pathlib import Path

from trainwright.server.commands.terminal import Terminal, bar
from trainwright.server.markdown import counted, next_line, number
from trainwright.tools.alerts import life_of
from trainwright.tools.alerts.follower import Follower
from trainwright.tools.gates.study_check import best_value
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord, trials_of
from trainwright.tools.hyperparameter_tuner.views import StudyView, view_study
from trainwright.tools.projects import ProjectStatus, newest_first, overview, project_status
from trainwright.tools.projects.status import RunLine
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import study_named
from trainwright.tools.workspace.tables import RaisedAlert
from trainwright.trainer.base.errors import TrainwrightError

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


# `trainwright study`: a search's trials in the terminal.


def show_study(path: Path, study: str) -> None:
    """Print a study's trials, a line each. Raises NotFoundError."""
    workspace, terminal = Workspace.open(path), Terminal()
    try:
        with workspace.snapshot() as session:
            name = study_named(session, study)
            trials = trials_of(session, name)
        view = view_study(workspace, name, estimate=True)
        terminal.line(f"{study}: {_standing(view)}")
        if view.failure is not None:
            terminal.line(f"      {view.failure.get('message')} {view.failure.get('remedy') or ''}")
        for trial in trials:
            keys = ", ".join(f"{key} {given}" for key, given in sorted(trial.parameters.items()))
            further = "".join(f"{metric} {value:.6g}, " for metric, value in trial.further.items())
            terminal.line(f"{trial.number:>4}  {trial.state:<9}  {_value(trial, view.direction):>12}  {further}{keys}")
        if any(trial.value is None and trial.intermediate for trial in trials):
            terminal.line("      * best epoch so far")
    finally:
        workspace.close()


def _standing(view: StudyView) -> str:
    """Return in a line how far a study is, what it has found and how long it takes."""
    under_way = len(view.running or {}) or int(view.running_trial is not None)
    counts = {"pruned": view.pruned, "failed": view.failed, "under way": under_way}
    parts = [f"{view.state}, {view.trials_done} of {view.trials_total} trials ended"]
    parts += [f"{count} {name}" for name, count in counts.items() if count]
    if view.best is not None:
        parts.append(f"best trial {view.best.number} with {view.metric} {view.best.value:.6g}")
    if view.front is not None:
        parts.append(f"{view.front_size} on the Pareto front")
    if view.confirmation is not None:
        parts.append("improvement validated" if view.confirmation.get("validated") else "improvement not validated")
    if view.estimated_seconds is not None:
        parts.append(f"about {view.estimated_seconds:.0f} s left, repetitions included")
    return ", ".join(parts)


def _value(trial: TrialRecord, direction: str) -> str:
    if trial.value is not None:
        return f"{trial.value:.6g} "
    best = best_value(trial.intermediate, direction)
    return "" if best is None else f"{best:.6g}*"


# `trainwright dashboard`: the workspace's page in the browser, until Ctrl-C.


def serve_dashboard(path: Path, port: int, *, browser: bool) -> None:
    """Print the page's address and serve it. Raises ConflictError, StorageError, IntegrityError.

    Args:
        port: 0 for any that is free.
        browser: whether to open it in the user's browser.
    """
    from trainwright.server.dashboard.serving import Dashboard

    page = Dashboard(path, port)
    terminal = Terminal()
    terminal.line(page.access.address)
    terminal.line("This machine alone can open it, and who has the token in the address. Ctrl-C ends it.", "dim")
    if browser:
        webbrowser.open(page.access.address)
    page.run()


def keep_page(path: Path, project: str, into: Path) -> None:
    """Write a project's pages into one file, which a browser opens anywhere. Raises NotFoundError, OSError."""
    from trainwright.server.dashboard.keeping import kept_page

    with closing(Workspace.open(path)) as workspace:
        into.write_text(kept_page(workspace, project), encoding="utf-8")
    Terminal().marked("ok", f"{into}: open it in a browser; it needs no server")


# `trainwright follow`: runs are followed without a server, for clusters and cron.

ALERT_MARKS = {"critical": "fail", "warning": "warn"}


def follow_runs(path: Path, *, once: bool) -> None:
    """Follow the workspace's runs until none is alive and nothing is owed, or look at them once. SIGTERM ends it."""
    workspace, terminal, stop = Workspace.open(path), Terminal(), threading.Event()

    def show(project: str, run: str, alert: RaisedAlert | None) -> None:
        if alert is not None and alert.severity in ALERT_MARKS:
            mark = "ok" if alert.cleared_at is not None else ALERT_MARKS[alert.severity]
            terminal.marked(mark, f"{project} {run}: {alert.id} {life_of(alert).value}: {alert.message}")

    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    follower = Follower(workspace, show, keeps=True)
    try:
        if once:
            follower.step()
            follower.end()
        else:
            follower.follow(stop)
    finally:
        workspace.close()
