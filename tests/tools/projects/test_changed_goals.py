"""Goals that change beside a result: raised freely, eased by the owner alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.worlds.flowers import NAME, finish

from trainwright.tools import projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.ledger import record
from trainwright.tools.ledger.events import GoalChanged
from trainwright.tools.projects.goals import unbounded_test
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.verification import verify_workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import leaves, parse_config
from trainwright.trainer.run import RunKind


@pytest.mark.requirement("PHASE-2", "GATE-3")
def test_once_a_result_counts_a_goal_is_raised_freely_and_lowered_by_the_owner_alone(at: Any) -> None:
    workspace = at("trained")
    raised = projects.configure(workspace, NAME, changes={"goal.target": 0.99})
    assert raised.changed["goal"][1]["target"] == 0.99
    with pytest.raises(ConfigurationError, match="is a result") as lowered:
        projects.configure(workspace, NAME, changes={"goal.target": 0.7})
    asked = projects.configure(workspace, NAME, **lowered.value.details["amend"])
    assert asked.requests is not None
    assert "0.7" in str(asked.requests)
    with pytest.raises(ConfigurationError, match="is a result") as other:
        projects.configure(workspace, NAME, changes={"goal": {"metric": "f1", "direction": "maximize", "target": 0.99}})
    assert "Another metric is another project" in other.value.remedy
    assert not verify_workspace(workspace.path).problems


@pytest.mark.requirement("PHASE-2")
@pytest.mark.parametrize(
    ("changes", "goal", "beside"),
    [
        ({"goal.metric": "mae", "goal.target": 0.3}, ("mae", 0.3), {"loss": "mse", "metrics": ["mae"]}),
        ({"goal": {"metric": "mae", "direction": "minimize", "target": 0.3}}, ("mae", 0.3), {"loss": "mse"}),
        ({"goal.metric": "acuracy", "training.epochs": 7}, ("accuracy", 0.6), {"training.epochs": 7}),
        ({"goal.target": 90}, ("accuracy", 0.9), {}),
    ],
)
def test_the_changes_that_a_refused_goal_prints_are_taken(at: Any, changes: Any, goal: Any, beside: Any) -> None:
    workspace = at("planned")
    with pytest.raises(ConfigurationError) as refused:
        projects.configure(workspace, NAME, changes=changes)
    printed = json.loads(refused.value.remedy.partition("changes=")[2].partition(";")[0])
    assert refused.value.details["amend"] == {"changes": printed}
    assert beside.items() <= printed.items()
    projects.configure(workspace, NAME, changes=printed, reason="the user asked for it")
    with workspace.session() as session:
        kept = Evidence(session, workspace, NAME)
        assert (kept.goal["metric"], kept.goal["target"]) == goal
        assert {one: leaves(kept.version.values).get(one) for one in beside} == beside


@pytest.mark.requirement("PHASE-2", "GATE-3")
def test_a_smoke_run_of_many_steps_is_a_result(at: Any) -> None:
    workspace = at("smoked")
    projects.configure(workspace, NAME, changes={"goal.target": 0.5})
    finish(workspace, start_run(workspace, NAME, RunKind.SMOKE, max_steps=60).run_id)
    with pytest.raises(ConfigurationError, match="is a result"):
        projects.configure(workspace, NAME, changes={"goal.target": 0.4})


@pytest.mark.requirement("PHASE-2", "GATE-3")
def test_a_smoke_run_whose_record_cannot_be_read_may_have_been_a_training(at: Any) -> None:
    workspace = at("smoked")
    projects.configure(workspace, NAME, changes={"goal.target": 0.5})
    (record,) = (workspace.path / "projects" / NAME / "runs").glob("smoke-*/run.json")
    record.write_text("{")
    with pytest.raises(ConfigurationError, match="is a result"):
        projects.configure(workspace, NAME, changes={"goal.target": 0.4})


@pytest.mark.requirement("PHASE-2", "GATE-3")
def test_decisions_are_derived_under_the_goal_of_their_time_and_no_forged_change_eases_it(at: Any) -> None:
    workspace = at("diagnosed")
    projects.configure(workspace, NAME, changes={"goal.target": 0.999})
    assert not verify_workspace(workspace.path).problems
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.1}
    with workspace.session() as session:
        record(session, NAME, GoalChanged(goal=goal, before={**goal, "target": 0.999}))
        record(session, NAME, GoalChanged(goal={**goal, "target": 0.9}, before={**goal, "target": 0.999}))
    eased, misstated = verify_workspace(workspace.path).problems
    assert "it eases the goal" in eased
    assert "the goal before it is recorded as" in misstated


@pytest.mark.requirement("PHASE-2")
def test_a_goal_that_the_smoke_run_meets_already_is_told_before_training(at: Any) -> None:
    workspace = at("smoked")
    projects.configure(workspace, NAME, changes={"goal.target": 0.01})
    easy = projects.project_status(workspace, NAME)
    assert isinstance(easy, projects.ProjectStatus)
    assert any("the smoke run already meets the goal" in one for one in easy.remarks)
    projects.configure(workspace, NAME, changes={"goal.target": 1.0})
    hard = projects.project_status(workspace, NAME)
    assert isinstance(hard, projects.ProjectStatus)
    assert not any("smoke run" in one for one in hard.remarks)


@pytest.mark.requirement("PHASE-2", "PIPE-3")
def test_where_rows_that_nothing_chose_by_are_asked_for_it_is_told_how_the_test_split_is_bounded() -> None:
    parts = {"model": {"use": "mlp"}, "data": {"use": "digits"}}
    config = parse_config(parts)
    bounded = parse_config(parts | {"evaluation_gate": {"minimum": {"test/accuracy": 0.9}}})
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
    (said,) = unbounded_test("an honest figure on reviews used for nothing, at least 0.9", goal, config)
    assert "unless configure(changes={'evaluation_gate.minimum': {'test/accuracy': 0.9}}) does so" in said
    assert unbounded_test("an honest figure", goal, bounded) == []
    assert unbounded_test("accuracy of 0.9", goal, config) == []
    least = {"metric": "mae", "direction": "minimize", "target": 3}
    (lower,) = unbounded_test("MAE of 3 on unseen pumps", least, config)
    assert "'evaluation_gate.maximum': {'test/mae': 3}" in lower
