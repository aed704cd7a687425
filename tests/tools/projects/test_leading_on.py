"""Remedies can be called as they stand, and an end says what there is (N8, N9, and what a second reading found)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.server.surface import tuning_status
from trainwright.tools import projects
from trainwright.tools.answers import NextCall
from trainwright.tools.gates.checks.evaluation import _ask
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.final_words import final_words, of_the_goals_kind_first
from trainwright.tools.gates.searches import is_baseline
from trainwright.tools.hyperparameter_tuner import start_study
from trainwright.tools.projects.advancing import _answer, _Way, advance
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConflictError, GateRefusedError
from trainwright.trainer.config import leaves

NAME = "flowers"
At = Callable[[str], Workspace]


@pytest.mark.slow
@pytest.mark.requirement("GATE-2", "PHASE-10")
def test_the_remedy_of_a_search_on_a_finished_project_can_be_called_as_it_stands(at: At) -> None:
    workspace = at("finished")
    with pytest.raises(GateRefusedError) as refused:
        start_study(
            workspace, NAME, search={"trials": 1, "space": {"optimizer.learning_rate": {"choices": [0.1, 0.2]}}}
        )
    call = refused.value.details["next"]
    assert str(call["arguments"]["changes"]) in refused.value.remedy
    answer = projects.configure(workspace, **call["arguments"])
    assert (answer.release_begun, answer.phase) == (2, "planning")


@pytest.mark.slow
@pytest.mark.requirement("MCP-3", "PHASE-1")
def test_a_release_of_an_unfinished_project_is_refused_with_the_reason(at: At) -> None:
    workspace = at("based")
    with pytest.raises(ConflictError, match="no release is finished to work on") as refused:
        projects.configure(workspace, NAME, changes={"training.epochs": 3}, begin_release=True)
    assert refused.value.details["amend"] == {"begin_release": False}


@pytest.mark.slow
@pytest.mark.requirement("MCP-3", "PIPE-3")
def test_the_last_answer_of_advance_has_goal_figures_and_use_and_counts_apart_what_did_not_apply(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = at("exported")
    answer = advance(workspace, NAME)
    assert answer.ended == "finished", answer
    goal, tested, *_, trees, inputs, use, version = answer.result
    assert version == "It is v1; promote_model(project='flowers', version='v1') puts it in production."
    assert re.match(
        r"accuracy on the same 30 test rows: the model [0-9.]+, a logistic regression .* difference .*\. "
        r"Gradient-boosted trees .*: [0-9.]+; difference .* \(95 % interval .*\): not told apart\.$",
        trees,
    )
    assert re.match(
        r"Inputs that matter most \(accuracy, .*without, 60 validation and test rows\): .*petal_width 0\.\d+",
        inputs,
    )
    with workspace.session() as session:
        found = Evidence(session, workspace, NAME).export.exported.importance
    for one in found.columns:  # of 30 rows each
        assert one.worsening == pytest.approx((one.by_split["validation"] + one.by_split["test"]) / 2)
    assert goal.startswith("Goal ")
    assert "% interval" in tested
    assert "rows, certified: " in tested
    assert tested.endswith("final_model/rows.csv names the split of each row, from 0; predict.py counts from 1.")
    listed = (workspace.project_folder(NAME) / "final_model" / "rows.csv").read_text().splitlines()
    assert (len(listed), listed[0]) == (len(set(listed)), "row,split")
    assert {line.partition(",")[2] for line in listed[1:]} == {"train", "validation", "test"}
    assert use.startswith("`python predict.py rows.csv` in final_model/")
    assert " not applicable (" in answer.steps[-1], answer.steps
    assert advance(workspace, NAME).result == answer.result, "also where it was finished before"
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        monkeypatch.setattr(type(evidence.export), "certified", lambda *_: {"accuracy": 0.9})
        assert re.search(r"certified: accuracy .*; as its process reported: loss ", final_words(evidence)[1])


@pytest.mark.requirement("GATE-7", "GATE-6")
def test_the_last_answer_has_the_goals_metric_of_every_target_before_any_loss() -> None:
    names = ["b_loss", "b_r2", "c_loss", "c_r2", "loss", "a_r2", "d_r2", "e_r2"]
    assert of_the_goals_kind_first(names, "a_r2") == ["a_r2", "b_r2", "c_r2", "d_r2", "e_r2"]
    assert of_the_goals_kind_first(["f1", "accuracy", "loss"], "accuracy") == ["accuracy", "f1", "loss"]


@pytest.mark.slow
@pytest.mark.requirement("GATE-7", "TRAIN-5")
def test_a_run_that_the_phase_does_not_permit_any_more_is_not_resumed_by_next(at: At) -> None:
    workspace = at("finished")
    status = projects.project_status(workspace, NAME)
    assert isinstance(status, projects.ProjectStatus)
    assert status.next is None
    for run in status.runs:
        found = projects.diagnose(workspace, NAME, run.run_id)
        assert found.next is None, "a finished project is told no old remedy"


@pytest.mark.requirement("PIPE-3", "GATE-2")
@pytest.mark.parametrize(
    ("broken", "accept", "split"),
    [(["test/accuracy"], 0.7, "test"), (["accuracy"], 0.9, "validation"), (["plan=a test/f1"], 0.7, "test")],
)
def test_the_owner_is_asked_for_the_value_of_the_split_whose_bound_is_broken(
    broken: list[str], accept: float, split: str
) -> None:
    evidence: Any = SimpleNamespace(
        name="p", goal_metric="accuracy", goal={"direction": "maximize"},
        export=SimpleNamespace(tested_metrics=lambda: {"accuracy": 0.7}),
        call=lambda tool, why, **arguments: SimpleNamespace(tool=tool, arguments=arguments, why=why),
    )  # fmt: skip
    call = _ask(evidence, 0.9, broken)
    assert call.arguments == {"ask_owner": {"accept": accept}}
    assert f"the {split} accuracy" in call.why


def test_an_empty_section_differs_from_a_filled_one_by_its_keys_alone() -> None:
    assert leaves({"model": {"use": "mlp", "args": {}}}) == {"model.use": "mlp"}
    assert leaves({"model": {"args": {"hidden": [8]}}}) == {"model.args.hidden": [8]}


def test_a_search_whose_best_is_the_baseline_has_no_winner() -> None:
    assert is_baseline({"baseline_runs": ["a", "b"], "best_runs": ["a", "b"]})
    assert not is_baseline({"baseline_runs": ["a", "b"], "best_runs": ["c", "d"]})
    assert not is_baseline({})


def test_the_status_of_a_search_can_be_asked_for_by_its_project() -> None:
    assert "project" in tuning_status.parameters["properties"]


BROKEN = """
import pathlib

pathlib.Path(__file__).with_name("out.log").write_text("what a run writes is no change")

class Net:
    def __init__(self):
        raise KeyError("width")
"""


@pytest.mark.slow
@pytest.mark.requirement("GATE-7", "MCP-3")
def test_advance_tells_a_failure_on_unchanged_files_and_does_not_repeat_it(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(BROKEN)
    workspace = Workspace.open(tmp_path / "workspace")
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
    config = {
        "code_root": str(tmp_path),
        "model": {"use": "net.py:Net"},
        "data": {"use": "iris", "expectations": {"without": ["label_errors", "leaks"]}},
    }
    projects.create_project(workspace, "iris", intent="", goal=goal, config=config)
    first, again = (advance(workspace, "iris") for _ in range(2))
    assert (first.ended, again.ended) == ("failure", "decision")
    assert again.next is not None
    assert again.next.tool == "read_document"
    assert "'width'" in again.next.why
    (tmp_path / "net.py").write_text(f"{BROKEN}# corrected\n")
    status = projects.project_status(workspace, "iris")
    assert isinstance(status, projects.ProjectStatus)
    assert len(status.runs) == 1
    assert status.next is not None
    assert status.next.tool == "start_training", "what has changed is tried"
    workspace.close()


@pytest.mark.slow
@pytest.mark.requirement("GATE-7", "MCP-3")
def test_an_alert_that_asks_for_no_change_leads_on_by_advance_and_a_fix_is_kept(at: At) -> None:
    workspace = at("planned")
    way = _Way(workspace, NAME, 0.0, lambda: False, lambda _: None, watching=lambda _: None, known=set(), ended="alert")
    watched = NextCall(tool="run_status", arguments={"run_id": "flowers/smoke-1", "wait_seconds": 50}, why="it goes on")
    fix = NextCall(tool="configure", arguments={"project": NAME, "changes": {"training.epochs": 9}}, why="a fix")
    goes_on, mends = _answer(way, watched).next, _answer(way, fix).next
    assert goes_on is not None
    assert (goes_on.tool, goes_on.arguments["project"]) == ("advance", NAME)
    assert mends == fix
