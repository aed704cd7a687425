"""One real project, driven once through all phases; every test works on its own copy of a stage of it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import load_iris

from trainwright.tools import projects
from trainwright.tools.ledger import copy_all_forward
from trainwright.tools.training_orchestrator import replay_run, start_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.canonical import canonical_json, digest_json
from trainwright.trainer.run import RunKind

NAME = "flowers"
Edit = Callable[[dict[str, Any]], None]
Rewrite = Callable[[Workspace, str, Edit], None]
MODEL = """
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
    "loader": {"prefetch_factor": 4},
    "training": {"epochs": 6},
    "logging": {"tensorboard": False},
}
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.6}
STAGES = ("created", "smoked", "planned", "trained", "based", "diagnosed", "tuned", "exported", "finished")


def write_code(folder: Path) -> None:
    """Write the user's model and data, as they would stand in their own repository."""
    folder.mkdir(parents=True)
    (folder / "flower_model.py").write_text(MODEL)
    data, target = load_iris(return_X_y=True)
    lines = ["sepal_length,sepal_width,petal_length,petal_width,species"]
    # one flower of the set stands in it twice, which the split check rightly calls leakage: keep each row once
    rows = dict.fromkeys((*map(float, row), int(label)) for row, label in zip(data, target, strict=True))
    lines += [",".join(map(str, row)) for row in rows]
    (folder / "iris.csv").write_text("\n".join(lines) + "\n")


def finish(workspace: Workspace, run_id: str, tries: int = 4) -> Any:
    """Wait until a run has ended and is filed."""
    for _ in range(tries):
        view = wait_for_run(workspace, run_id, 50)
        if view.is_ended:
            return view
    raise AssertionError(f"{run_id} did not end: {view}")


def train(workspace: Workspace, kind: RunKind) -> Any:
    """Start a run of the kind and wait for its end."""
    view = finish(workspace, start_run(workspace, NAME, kind).run_id)
    assert view.state == "completed", view.failure
    return view


def _advance(workspace: Workspace, stage: str) -> None:
    """Take the project from the stage before to this one, by real runs and real gates."""
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
    else:
        phase = {"planned": "planning", "based": "baseline", "tuned": "optimization", "finished": "finalization"}[stage]
        projects.pass_gate(workspace, NAME, phase)


def rewrite_decision(workspace: Workspace, phase: str, edit: Edit) -> None:
    """Edit a gate decision as someone with the file and our source would: every hash, row and copy computed anew.

    Without a phase, edit every entry of the ledger.
    """
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        rows = connection.execute("SELECT sequence, time, project, kind, body FROM ledger ORDER BY sequence").fetchall()
        previous = "genesis"
        for sequence, time, project, kind, text in rows:
            body = json.loads(text)
            if not phase:  # of whatever kind
                edit(body)
            if kind == "gate" and phase in {"", body["phase"]}:
                edit(body)
                report = json.dumps({"outcome": body["outcome"], "checks": body["checks"]})
                values = (report, json.dumps(body["rested_on"]), body["outcome"] != "refused", sequence)
                connection.execute(
                    "UPDATE gate_decisions SET report = ?, rested_on = ?, passed = ? WHERE ledger_sequence = ?", values
                )
            content = [sequence, time, project, kind, canonical_json(body), previous]
            digest = digest_json(content)
            connection.execute(
                "UPDATE ledger SET body = ?, previous = ?, digest = ? WHERE sequence = ?",
                (canonical_json(body), previous, digest, sequence),
            )
            previous = digest
        for _, sql in triggers:
            connection.execute(sql)
    for copy in workspace.path.glob("projects/*/ledger.jsonl"):
        copy.unlink()
    copy_all_forward(workspace)


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folder of the project's world (workspace and code) at every stage."""
    base = tmp_path_factory.mktemp("stages")
    world = base / "world"
    write_code(world / "code")
    kept: dict[str, Path] = {}
    for stage in STAGES:
        workspace = Workspace.open(world / "workspace")
        _advance(workspace, stage)
        workspace.close()
        kept[stage] = base / stage
        shutil.copytree(world, kept[stage])
    return kept


@pytest.fixture
def at(stages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Workspace]]:
    """Return a function that opens a private copy of a stage.

    The copy takes the place of the original world, since a project's code root is recorded as an absolute path.
    """
    opened: list[Workspace] = []
    world = stages["created"].parent / "world"

    def open_stage(stage: str) -> Workspace:
        for workspace in opened:
            workspace.close()
        shutil.rmtree(world, ignore_errors=True)
        shutil.copytree(stages[stage], world)
        opened.append(Workspace.open(world / "workspace"))
        return opened[-1]

    yield open_stage
    for workspace in opened:
        workspace.close()


@pytest.fixture
def rewrite() -> Rewrite:
    """Return a function that edits the decisions on a phase in ledger, index and plain copies."""
    return rewrite_decision
