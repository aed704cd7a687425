"""The world of the cheats: a workspace and a user's repository, one real project at every stage of its life."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sklearn.datasets import load_iris

from trainwright.tools import projects
from trainwright.tools.ledger.verification import verify_workspace
from trainwright.tools.training_orchestrator import replay_run, start_run, wait_for_run
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
    },
    "optimizer": {"learning_rate": 0.02},
    "training": {"epochs": 6},
    "logging": {"tensorboard": False},
}
GOAL: dict[str, Any] = {"metric": "accuracy", "direction": "maximize", "target": 0.6}
STAGES = ("empty", "created", "smoked", "planned", "trained", "based", "diagnosed", "tuned", "exported", "finished")
GATES = {"planned": "planning", "based": "baseline", "tuned": "optimization", "finished": "finalization"}


class World:
    """One folder that is set back to any stage. The project's code root is recorded as an absolute path, so a stage
    is always brought back to the same place."""

    def __init__(self, base: Path) -> None:
        self.base = base.resolve()
        self.folder = self.base / "world"

    @property
    def workspace(self) -> Path:
        """The server's workspace."""
        return self.folder / "workspace"

    @property
    def code(self) -> Path:
        """The user's repository."""
        return self.folder / "code"

    def build(self) -> None:
        """Take the project through all five phases by real runs and gates, keeping a copy of every stage."""
        write_code(self.code)
        for stage in STAGES:
            workspace = Workspace.open(self.workspace)
            _advance(workspace, stage)
            workspace.close()
            assert verify_workspace(self.workspace).problems == [], stage
            shutil.copytree(self.folder, self.base / stage)

    def set_back(self, stage: str) -> None:
        """Put the world as it was at the stage."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.base / stage, self.folder)


def write_code(folder: Path) -> None:
    """Write the user's model and data, as they would stand in their own repository."""
    folder.mkdir(parents=True)
    (folder / "flower_model.py").write_text(MODEL)
    data, target = load_iris(return_X_y=True)
    # one flower of the set stands in it twice, which the split check rightly calls leakage: keep each row once
    rows = dict.fromkeys((*map(float, row), int(label)) for row, label in zip(data, target, strict=True))
    lines = ["sepal_length,sepal_width,petal_length,petal_width,species"]
    (folder / "iris.csv").write_text("\n".join([*lines, *(",".join(map(str, row)) for row in rows)]) + "\n")


def finish(workspace: Workspace, run_id: str) -> Any:
    """Wait until a run has ended and is filed, and return its view."""
    while not (view := wait_for_run(workspace, run_id, 50, poll_seconds=0.1)).is_ended:
        pass
    return view


def train(workspace: Workspace, kind: RunKind) -> Any:
    """Train a run that must end well."""
    view = finish(workspace, start_run(workspace, NAME, kind).run_id)
    assert view.state == "completed", view.failure
    return view


def _advance(workspace: Workspace, stage: str) -> None:
    if stage == "created":
        projects.create_project(workspace, NAME, intent="tell irises apart", goal=GOAL, config=CONFIG)
    elif stage == "smoked":
        train(workspace, RunKind.SMOKE)
    elif stage == "trained":
        train(workspace, RunKind.BASELINE)
    elif stage == "diagnosed":
        projects.diagnose(workspace, NAME)
        projects.pass_gate(workspace, NAME, "diagnostics")
    elif stage == "exported":
        final = train(workspace, RunKind.FINAL)
        assert finish(workspace, replay_run(workspace, NAME, run_id=final.run_id).run_id).state == "completed"
        train(workspace, RunKind.EXPORT)
    elif stage in GATES:
        projects.pass_gate(workspace, NAME, GATES[stage])
