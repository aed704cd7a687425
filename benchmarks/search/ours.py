"""Our contestant: a real project, taken by real runs to where a search may start, and its study at width 2."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks import GOAL, SPACE, Task

from trainwright.tools.hyperparameter_tuner import start_study, study_status
from trainwright.tools.projects import create_project, diagnose, pass_gate
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind

WIDTH = 2
IDLE_SECONDS = 120.0


@dataclass(frozen=True)
class Project:
    """A project whose search may start."""

    workspace: Workspace
    name: str


@dataclass(frozen=True)
class Searched:
    """A study that has ended, and when it was asked for and its end was seen (seconds since 1970)."""

    study_id: str
    asked_at: float
    ended_at: float


def ready_project(task: Task, folder: Path, *, warm: int | None = None) -> Project:
    """Create the project and pass the gates before its search, by real runs.

    Args:
        folder: where the task's data lie.
        warm: warm processes that the owner allows; None: as a workspace is by default.
    """
    workspace = Workspace.open(folder / "workspace", patience_seconds=120)
    if warm is not None:
        settings = workspace.path / "settings.yaml"
        kept = [line for line in settings.read_text().splitlines() if not line.startswith("warm_workers:")]
        kept.append(f"warm_workers: {{most: {warm}, idle_seconds: {IDLE_SECONDS}}}\n")
        settings.write_text("\n".join(kept))
        workspace = workspace.refreshed()
    create_project(workspace, task.name, intent="", goal=GOAL, config=task.config(folder))
    for kind, gate in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        train(workspace, task.name, kind)
        require_open(pass_gate(workspace, task.name, gate))
    diagnose(workspace, task.name)
    require_open(pass_gate(workspace, task.name, "diagnostics"))
    return Project(workspace, task.name)


def require_open(answer: Any) -> None:
    """Raise RuntimeError where a gate stayed closed."""
    if answer.outcome != "passed":
        raise RuntimeError(answer.model_dump_json(indent=1))


def train(workspace: Workspace, name: str, kind: RunKind) -> None:
    """Train a run that must end well."""
    view = start_run(workspace, name, kind)
    while not view.is_ended:
        view = wait_for_run(workspace, view.run_id, 50.0)
    if view.state != "completed":
        raise RuntimeError(f"{view.run_id} is {view.state}: {view.failure}")


def search_of(trials: int, seed: int) -> dict[str, Any]:
    """Return the search: nothing pruned, and every trial suggested by the method."""
    return {
        "method": "tpe", "trials": trials, "width": WIDTH, "seed": seed, "space": SPACE,
        "pruning": {"name": "none"}, "present_first": False,
    }  # fmt: skip


def carry_out(project: Project, *, trials: int, seed: int) -> Searched:
    """Start the study and wait for its end, confirmation included, as an agent does.

    Raises:
        RuntimeError: it did not complete.
    """
    asked_at = time.time()
    view = start_study(project.workspace, project.name, search=search_of(trials, seed))
    while not view.is_ended:
        view = study_status(project.workspace, view.study_id, 50.0)
    if view.state != "completed" or view.completed != trials:
        raise RuntimeError(f"{view.study_id} is {view.state}: {view.model_dump_json()}")
    return Searched(view.study_id, asked_at, time.time())
