"""A change that may not matter: a short replay shows it, and nothing is trained anew."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.tools import projects
from trainwright.tools.gates.releases import CARRIED
from trainwright.tools.ledger import append, entries
from trainwright.tools.training_orchestrator import replay_run, start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import GateRefusedError
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

NAME = "flowers"
At = Callable[[str], Workspace]


def status(workspace: Workspace) -> projects.ProjectStatus:
    found = projects.project_status(workspace, NAME)
    assert isinstance(found, projects.ProjectStatus)
    return found


def finish(workspace: Workspace, run_id: str) -> str:
    while not (view := wait_for_run(workspace, run_id, 50)).is_ended:
        pass
    assert view.state == "completed", view.failure
    return run_id


@pytest.mark.requirement("PHASE-8", "REPRO-3", "GATE-3")
def test_a_short_replay_carries_the_evidence_over_and_every_later_gate_stands_again(
    at: At, other_numpy: Callable[[], None]
) -> None:
    workspace = at("diagnosed")
    other_numpy()
    found = status(workspace)
    assert found.phase == "planning"
    assert found.next is not None
    assert found.next.tool == "verify_reproducibility"
    arguments = dict(found.next.arguments)
    assert arguments["run_id"].startswith("baseline-")
    replay = finish(workspace, replay_run(workspace, arguments.pop("project"), **arguments).run_id)
    found = status(workspace)
    assert found.phase == "optimization"
    assert any(remark.startswith(f"carried over by {replay}, {arguments['steps']} steps") for remark in found.remarks)
    with workspace.session() as session:
        ((_, body),) = entries(session, NAME, CARRIED)
    assert body["replay"] == replay
    assert "numpy" in body["changes"][0]
    projects.pass_gate(workspace, NAME, "optimization")
    start = start_run(workspace, NAME, RunKind.FINAL)
    finish(workspace, start.run_id)
    checks = {check.id: check.status for check in status(workspace).checks}
    assert checks["finalization.same_evidence"] == "passed"
    assert verify_workspace(workspace.path).findings == []


@pytest.mark.long
@pytest.mark.requirement("PHASE-8", "REPRO-3")
def test_too_few_steps_are_made_as_many_as_carry_the_plan_over(at: At, other_numpy: Callable[[], None]) -> None:
    workspace = at("diagnosed")
    (baseline,) = [run.run_id for run in status(workspace).runs if run.kind == "baseline"]
    useless = replay_run(workspace, NAME, run_id=baseline, steps=2)
    assert useless.taken_as == ["the first 2 steps are compared, which opens no gate: no passed gate is stale"]
    finish(workspace, useless.run_id)
    other_numpy()
    call = status(workspace).next
    assert call is not None
    assert call.tool == "verify_reproducibility"
    replay = replay_run(workspace, NAME, run_id=baseline, steps=2)
    needed = call.arguments["steps"]
    assert replay.taken_as == [f"steps 2 -> {needed}: so many carry the plan over"]
    finish(workspace, replay.run_id)
    assert status(workspace).phase == "optimization"


@pytest.mark.long
@pytest.mark.requirement("PHASE-8", "REPRO-3")
def test_a_replay_of_an_earlier_plans_baseline_says_beforehand_that_it_opens_no_gate(at: At) -> None:
    workspace = at("diagnosed")
    (baseline,) = [run.run_id for run in status(workspace).runs if run.kind == "baseline"]
    path = workspace.path.parent / "code" / "flower_model.py"
    path.write_text(path.read_text() + "\n\ndef unused() -> int:\n    return 1\n")
    with pytest.raises(GateRefusedError, match=r"code: flower_model\.py changed"):
        replay_run(workspace, NAME, run_id=baseline, steps=50)
    finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    projects.pass_gate(workspace, NAME, "planning")
    (told,) = replay_run(workspace, NAME, run_id=baseline, steps=50).taken_as or [""]
    assert told.endswith("opens no gate: what changed is measured anew (code: flower_model.py changed)")


@pytest.mark.long
@pytest.mark.requirement("PHASE-8", "PIPE-1")
def test_advance_and_so_a_stage_makes_the_short_replay_by_itself(at: At, other_numpy: Callable[[], None]) -> None:
    workspace, steps = at("diagnosed"), []
    other_numpy()
    answer = projects.advance(workspace, NAME, should_stop=lambda: bool(steps), said=steps.append)
    assert [step.partition("-")[0] for step in steps] == ["replay"]
    assert answer.phase == "optimization", answer


@pytest.mark.requirement("PHASE-8", "GATE-3", "GATE-5")
def test_an_entry_that_no_replay_backs_is_named(at: At) -> None:
    workspace = at("based")
    runs = {run.kind: run.run_id for run in status(workspace).runs}
    with workspace.session() as session:
        body = {"replay": runs["baseline"], "source": runs["baseline"], "smoke_run": runs["smoke"], "planning": 4,
                "steps": 10, "changes": []}  # fmt: skip
        append(session, NAME, CARRIED, body)
    problems = verify_workspace(workspace.path).problems
    assert any("the replay does not carry the plan over: " in problem for problem in problems), problems


@pytest.mark.requirement("PHASE-8")
def test_changed_data_or_code_is_measured_anew_and_never_carried_over(at: At, other_numpy: Callable[[], None]) -> None:
    workspace = at("diagnosed")
    other_numpy()
    path = workspace.path.parent / "code" / "flower_model.py"
    path.write_text(path.read_text().replace("ReLU", "GELU"))
    found = status(workspace)
    assert found.next is not None
    assert (found.next.tool, found.next.arguments["kind"]) == ("start_training", "smoke")


MODEL = """
import scaled
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, rows):
        return self.layer(rows) * scaled.FACTOR
"""
CONFIG = {
    "model": {"use": "net.py:Net"},
    "data": {"use": "iris", "expectations": {"without": ["label_errors", "leaks"]}},
    "training": {"epochs": 2},
    "code_root": "code",
}


def publish(library: Path, version: str, factor: float) -> None:
    """Install a version of a package that the model computes with."""
    for old in library.glob("scaled*"):
        shutil.rmtree(old)
    (library / "scaled").mkdir(parents=True)
    (library / "scaled" / "__init__.py").write_text(f"FACTOR = {factor}\n")
    (library / f"scaled-{version}.dist-info").mkdir()
    metadata = f"Metadata-Version: 2.1\nName: scaled\nVersion: {version}\n"
    (library / f"scaled-{version}.dist-info" / "METADATA").write_text(metadata)
    (library / f"scaled-{version}.dist-info" / "top_level.txt").write_text("scaled\n")
    importlib.invalidate_caches()


@pytest.mark.long
@pytest.mark.requirement("PHASE-8", "REPRO-3")
def test_a_package_that_changes_the_steps_is_not_carried_over_and_its_replay_not_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "net.py").write_text(MODEL)
    publish(library, "1.0", 1.0)
    monkeypatch.syspath_prepend(library)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(library), os.environ.get("PYTHONPATH")])))
    (tmp_path / "world").mkdir()
    (tmp_path / "world" / "settings.yaml").write_text(f"code_roots: ['{tmp_path}']\n")
    workspace = Workspace.open(tmp_path / "world")
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.2}
    projects.create_project(workspace, NAME, intent="", goal=goal, config=CONFIG)
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        finish(workspace, start_run(workspace, NAME, kind).run_id)
        projects.pass_gate(workspace, NAME, phase)
    publish(library, "1.1", 1.5)
    call = status(workspace).next
    assert call is not None
    assert call.tool == "verify_reproducibility", call
    arguments = dict(call.arguments)
    finish(workspace, replay_run(workspace, arguments.pop("project"), **arguments).run_id)
    found = status(workspace)
    assert found.phase == "planning", "the replay does not come out the same"
    with workspace.session() as session:
        assert entries(session, NAME, CARRIED) == []
    assert found.next is not None
    assert (found.next.tool, found.next.arguments["kind"]) == ("start_training", "smoke")
    workspace.close()
