"""A policy is released by what it does in independently run episodes, on seeds that the server draws."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.worlds.blank_pictures import blank_pictures
from tests.worlds.flowers import finish, train
from tests.worlds.pole import CODE, CONFIG, GOAL
from tests.worlds.warm import warm

from trainwright.tools import projects
from trainwright.tools.evaluation.episodes import drawn_of
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.training_orchestrator import replay_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.requirement("GATE-6", "PIPE-3")
NAME = "pole"


@pytest.mark.slow
@pytest.mark.long
def test_a_policy_is_released_by_its_episodes(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "pole.py").write_text(CODE)
    workspace = Workspace.open(tmp_path / "workspace")
    with warm(), blank_pictures():
        made = projects.create_project(workspace, NAME, intent="", goal=GOAL, config=CONFIG)
        assert any("balanced is your function: it plays episodes" in one for one in made.remarks), made.remarks
        for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
            train(workspace, kind, NAME)
            projects.pass_gate(workspace, NAME, phase)
        projects.diagnose(workspace, NAME)
        for phase in ("diagnostics", "optimization"):
            projects.pass_gate(workspace, NAME, phase)
        final = train(workspace, RunKind.FINAL, NAME)
        assert finish(workspace, replay_run(workspace, NAME, run_id=final.run_id).run_id).state == "completed"
        train(workspace, RunKind.EXPORT, NAME)
        projects.pass_gate(workspace, NAME, "finalization")
        with workspace.session() as session:
            known = Evidence(session, workspace, NAME).facts.evaluations
        drawn = [drawn_of(one.splits).get("validation", {}) for one in known.values()]
    workspace.close()
    of_run, of_export = drawn
    assert of_run == of_export != {}, "the export of the same weights draws no luckier ones"
    folder = tmp_path / "workspace" / "projects" / NAME / "final_model"
    shipped = json.loads((folder / "evaluation.json").read_text())
    seeds = {one["balanced"]["drawn"] for one in shipped["episodes"].values()}
    assert len(seeds) == 2, "each split's episodes are drawn by themselves"
    assert all(len(set(one["balanced"]["seeds"])) == 60 for one in shipped["episodes"].values())
    value = shipped["by_your_function"]["test"]["balanced"]
    card = (folder / "README.md").read_text()
    assert re.search(rf"test balanced {value:.6g} on 60 episodes, 95 % interval \[", card)
    assert (
        "with which your function `balanced` played independently run episodes, on seeds that the server drew" in card
    )
    assert re.search(r"balanced on the same 60 episodes: the model \S+, your reference pole.py:always_right \d", card)
    assert verify_workspace(workspace.path, evaluates=True).problems == []
