"""A file that appears after planning and that a run opens makes planning stale; a cache or a log does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.flowers import GOAL, table, train

from trainwright.tools import projects
from trainwright.tools.gates import staleness
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import Phase
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base import file_stamps
from trainwright.trainer.base.errors import GateRefusedError
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.looked_at import Opened

NAME = "own"
MODEL = """\
import json
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Linear(4, 3)
        if (HERE / "weights.npy").exists():
            self.layers.weight.data.copy_(torch.from_numpy(np.load(HERE / "weights.npy")))
        if not (HERE / "cache.pt").exists():
            torch.save(torch.zeros(3), HERE / "cache.pt")
        torch.load(HERE / "cache.pt")
        state = HERE / "state.json"
        runs = json.loads(state.read_text()) if state.exists() else 0
        state.write_text(json.dumps(runs + 1))
        with open(HERE / "log.txt", "a") as log:
            log.write(f"run {runs}\\n")

    def forward(self, rows):
        return self.layers(rows)
"""
CONFIG: dict[str, Any] = {
    "code_root": "code",
    "model": {"use": "own_model.py:Net"},
    "data": {"use": "csv", "args": {"path": "iris.csv", "target": "species"}},
    "training": {"epochs": 2},
    "logging": {"tensorboard": False},
}
pytestmark = [pytest.mark.slow, pytest.mark.requirement("GATE-6", "PHASE-8")]


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace with a project whose model reads and writes files beside it."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "own_model.py").write_text(MODEL)
    (code / "iris.csv").write_text("\n".join(table()) + "\n")
    (code / "placed.npy").write_bytes(b"not opened yet")
    opened = Workspace.open(tmp_path / "workspace")
    projects.create_project(opened, NAME, intent="own files", goal=GOAL, config=CONFIG)
    yield opened
    opened.close()


def plan(workspace: Workspace) -> None:
    train(workspace, RunKind.SMOKE, NAME)
    projects.pass_gate(workspace, NAME, "planning")


def planning(workspace: Workspace) -> str:
    found = projects.project_status(workspace, NAME)
    assert isinstance(found, projects.ProjectStatus)
    return found.gates["planning"]


def place_weights(workspace: Workspace) -> None:
    """Write a file that the model loads when it is there."""
    import numpy as np

    np.save(workspace.path.parent / "code" / "weights.npy", np.ones((3, 4), dtype=np.float32))


@pytest.mark.long
def test_weights_that_appear_after_planning_reopen_it_until_it_is_passed_with_them(workspace: Workspace) -> None:
    plan(workspace)
    place_weights(workspace)
    assert planning(workspace) == "passed", "a file that no run has opened is no evidence"
    run = train(workspace, RunKind.BASELINE, NAME)
    assert f"files: {run.run_id} opened weights.npy, new or changed since planning" in planning(workspace)
    with pytest.raises(GateRefusedError, match=r"weights\.npy"):
        projects.pass_gate(workspace, NAME, "planning")
    plan(workspace)
    assert planning(workspace) == "passed"
    assert verify_workspace(workspace.path).problems == []


def test_a_permit_reads_the_records_of_unchanged_runs_once(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each trial of a search is permitted by all that went before it; one that was tampered with is read again."""
    monkeypatch.setattr(file_stamps, "SETTLED_NS", 0)
    plan(workspace)
    place_weights(workspace)
    run = train(workspace, RunKind.BASELINE, NAME)
    record = workspace.run_directory(NAME, run.run_id).artifacts / f"{Opened.file}.json"
    looked = []
    look = staleness._unplanned
    monkeypatch.setattr(staleness, "_unplanned", lambda *args: looked.append(args[1].id) or look(*args))

    def reasons() -> list[str]:
        with workspace.session() as session:
            return phase_status_of(Evidence(session, workspace, NAME)).gate(Phase.PLANNING).reasons

    stale = [f"files: {run.run_id} opened weights.npy, new or changed since planning"]
    assert reasons() == stale
    looked.clear()
    assert (reasons(), looked) == (stale, [])
    record.write_text("{}")
    assert (reasons(), looked) == ([], [run.run_id])


@pytest.mark.long
def test_weights_that_are_changed_after_planning_reopen_it_by_the_sealed_record(workspace: Workspace) -> None:
    place_weights(workspace)
    plan(workspace)
    path = workspace.path.parent / "code" / "weights.npy"
    before = path.read_bytes()
    path.write_bytes(before[:-4] + bytes(4))
    train(workspace, RunKind.BASELINE, NAME)
    path.write_bytes(before)
    assert "weights.npy" in planning(workspace), "the sealed record decides, and not the file of today"
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.long
def test_caches_logs_and_states_that_runs_leave_reopen_nothing(workspace: Workspace) -> None:
    plan(workspace)
    for epochs in (3, 4):
        train(workspace, RunKind.BASELINE, NAME)
        projects.configure(workspace, NAME, changes={"training.epochs": epochs}, reason="longer")
        plan(workspace)
    train(workspace, RunKind.BASELINE, NAME)
    assert planning(workspace) == "passed"
    projects.pass_gate(workspace, NAME, "baseline")
    assert verify_workspace(workspace.path).problems == []
