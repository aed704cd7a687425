"""The usual world: a user's repository with a model and a table of irises, one real project taken through all phases.

A project's code root is recorded as an absolute path, so a world is always set back to the same place. Therefore each
process of the suite builds the stages it is asked for once, and those of its files that share them run in one process.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from sklearn.datasets import load_iris
from tests.worlds.blank_pictures import blank_pictures
from tests.worlds.warm import warm

from trainwright.tools import projects
from trainwright.tools.launchers import read_launch
from trainwright.tools.training_orchestrator import replay_run, start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind

NAME = "flowers"
MODEL = """\
import torch


class Net(torch.nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 3))

    def forward(self, rows):
        return self.layers(rows)
"""
CONFIG: dict[str, Any] = {
    "code_root": "code",
    "model": {"use": "flower_model.py:Net", "args": {"width": 16}},
    "data": {
        "use": "csv",
        "args": {"path": "iris.csv", "target": "species"},
        "split": {"validation": 0.2, "test": 0.2},
        "expectations": {"without": ["label_errors", "leaks"]},  # which are most of a smoke run here
    },
    "optimizer": {"learning_rate": 0.02},
    "loader": {"prefetch_factor": 4},
    "training": {"epochs": 6},
    "logging": {"tensorboard": False},
}
GOAL: dict[str, Any] = {"metric": "accuracy", "direction": "maximize", "target": 0.6}
STAGES = ("empty", "created", "smoked", "planned", "trained", "based", "diagnosed", "tuned", "exported", "finished")
GATES = {"planned": "planning", "based": "baseline", "tuned": "optimization", "finished": "finalization"}


TRIES = 20


class World:
    """One folder that is set back to any stage: the workspace, and the user's repository beside it."""

    def __init__(self, base: Path) -> None:
        self.base = base.resolve()
        self.folder = self.base / "world"
        self._built = 0

    @property
    def workspace(self) -> Path:
        """The server's workspace."""
        return self.folder / "workspace"

    @property
    def code(self) -> Path:
        """The user's repository."""
        return self.folder / "code"

    def set_back(self, stage: str) -> None:
        """Put the world as it was at the stage, which is built when it is asked for first."""
        while stage in STAGES[self._built :]:
            self._build()
        self._take(stage)

    def keep(self, stage: str) -> None:
        """Keep the world as it is now as a stage more."""
        shutil.rmtree(self.base / stage, ignore_errors=True)
        shutil.copytree(self.folder, self.base / stage, symlinks=True)

    def _take(self, stage: str) -> None:
        for left in reversed(range(TRIES)):
            self._kill_runs()
            shutil.rmtree(self.folder, ignore_errors=True)
            try:
                shutil.copytree(self.base / stage, self.folder, symlinks=True)
            except (FileExistsError, shutil.Error):  # a run that began meanwhile has written into it
                if not left:
                    raise
            else:
                return

    def _kill_runs(self) -> None:
        """Kill the runs that a test left: they would write into the next one's world."""
        for record in self.folder.rglob("launch.json"):
            launch = read_launch(record.parent)
            if launch is not None and launch.process is not None and launch.process.is_alive():
                launch.process.kill_tree()
                while launch.process.is_alive():
                    time.sleep(0.01)

    def _build(self) -> None:
        stage = STAGES[self._built]
        if self._built:
            self._take(STAGES[self._built - 1])
        else:
            write_code(self.code)
        workspace = Workspace.open(self.workspace)
        with warm(), blank_pictures():
            advance(workspace, stage)
        workspace.close()
        assert verify_workspace(self.workspace).problems == [], stage
        shutil.copytree(self.folder, self.base / stage, symlinks=True)
        self._built += 1


def write_code(folder: Path) -> None:
    """Write the user's model and data, as they would stand in their own repository."""
    folder.mkdir(parents=True)
    (folder / "flower_model.py").write_text(MODEL)
    (folder / "iris.csv").write_text("\n".join(table()) + "\n")


def table() -> list[str]:
    """The irises as lines of a table. One flower of the set stands in it twice, which is leakage: each row once."""
    data, target = load_iris(return_X_y=True)
    rows = dict.fromkeys((*map(float, row), int(label)) for row, label in zip(data, target, strict=True))
    names = "sepal_length,sepal_width,petal_length,petal_width,species"
    return [names, *(",".join(map(str, row)) for row in rows)]


def finish(workspace: Workspace, run_id: str, tries: int = 4) -> Any:
    """Wait until a run has ended and is filed, and return its view."""
    for _ in range(tries):
        view = wait_for_run(workspace, run_id, 50, poll_seconds=0.05)
        if view.is_ended:
            return view
    raise AssertionError(f"{run_id} did not end: {view}")


def train(workspace: Workspace, kind: RunKind, project: str = NAME) -> Any:
    """Train a run that must end well."""
    view = finish(workspace, start_run(workspace, project, kind).run_id)
    assert view.state == "completed", view.failure
    return view


def advance(workspace: Workspace, stage: str, project: str = NAME, **given: Any) -> None:
    """Take a project from the stage before to this one, by real runs and real gates.

    Args:
        given: of `create_project`, where it is not the flowers'.
    """
    if stage == "created":
        asked = {"intent": "tell irises apart", "goal": GOAL, "config": CONFIG} | given
        projects.create_project(workspace, project, **asked)
    elif stage == "smoked":
        train(workspace, RunKind.SMOKE, project)
    elif stage == "trained":
        train(workspace, RunKind.BASELINE, project)
    elif stage == "diagnosed":
        projects.diagnose(workspace, project)
        projects.pass_gate(workspace, project, "diagnostics")
    elif stage == "exported":
        final = train(workspace, RunKind.FINAL, project)
        assert finish(workspace, replay_run(workspace, project, run_id=final.run_id).run_id).state == "completed"
        train(workspace, RunKind.EXPORT, project)
    elif stage in GATES:
        projects.pass_gate(workspace, project, GATES[stage])
