"""Everything that can be wrong with an ablation study is said before its first run, with the call put right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainwright.tools import ledger, limits
from trainwright.tools.hyperparameter_tuner import start_study, stop_study, study_status
from trainwright.tools.projects import create_project
from trainwright.tools.projects.comparing import plot_study
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, GateRefusedError, LimitReachedError

pytestmark = pytest.mark.usefixtures("by_hand")

DECAY = "optimizer.weight_decay"
RATE = "optimizer.learning_rate"
PLAIN: dict[str, Any] = {"ablation": {"factors": {RATE: [1e-3]}}}
SETTLED: dict[str, Any] = {"ablation": {"factors": {RATE: [1e-6]}}}
"""The same, where the rate of `PLAIN` was settled on."""


@pytest.fixture(scope="module")
def refusing(module_workspace: Workspace, make_project: Callable[..., str]) -> Workspace:
    """A project in which no study is under way."""
    make_project(module_workspace)
    return module_workspace


def starts(workspace: Workspace, search: dict[str, Any]) -> None:
    view = start_study(workspace, "digits", search=search)
    assert view.state == "running"
    stop_study(workspace, view.study_id)


@pytest.mark.requirement("TUNE-5", "MCP-3")
@pytest.mark.parametrize(
    ("ablation", "told", "right"),
    [
        ({"factors": {"optimizer.learning_rte": [1e-3]}}, "learning_rte", {"factors": {RATE: [1e-3]}}),
        ({"factors": {RATE: [1e-6, 1e-3]}}, "is the present value", {"factors": {RATE: [1e-3]}}),
        ({"factors": {RATE: [-1.0, 1e-3]}}, "-1.0", {"factors": {RATE: [1e-3]}}),
        ({"factors": {RATE: [1e-3, 1e-3]}}, "given twice", {"factors": {RATE: [1e-3]}}),
        ({"factors": {"seed": [7], RATE: [1e-3]}}, "`seed` cannot be varied", {"factors": {RATE: [1e-3]}}),
        ({"factors": {"data.split.seed": [7], RATE: [1e-3]}}, "cannot be varied", {"factors": {RATE: [1e-3]}}),
        ({"factors": {RATE: [1e-3]}, "design": "latin"}, "ablation.design", {"factors": {RATE: [1e-3]}}),
        ({"factors": {RATE: [1e-3]}, "repeats": 2}, "greater than or equal to 3", {"factors": {RATE: [1e-3]}}),
        ({"factors": {RATE: [1e-3]}, "design": "factorial"}, "needs two factors", {"factors": {RATE: [1e-3]}}),
        (
            {"factors": {RATE: [1e-3, 1e-4], DECAY: [0.3]}, "design": "factorial"},
            "takes one alternative of each factor",
            {"factors": {RATE: [1e-3, 1e-4], DECAY: [0.3]}},
        ),
        (
            {"combinations": [{RATE: 1e-6, DECAY: 0.3}, {"seed": 7, DECAY: 0.3}]},
            "is the present value",
            {"factors": {}, "combinations": [{DECAY: 0.3}]},
        ),
        (
            {
                "factors": {RATE: [1e-3], DECAY: [0.3]},
                "combinations": [{RATE: 1e-3, DECAY: 0.3}],
                "design": "factorial",
            },
            "trains every combination of its factors",
            {"factors": {RATE: [1e-3], DECAY: [0.3]}, "combinations": [{RATE: 1e-3, DECAY: 0.3}]},
        ),
    ],
)
def test_a_study_that_does_not_fit_is_refused_and_the_remedy_starts(
    refusing: Workspace, ablation: dict[str, Any], told: str, right: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        start_study(refusing, "digits", search={"ablation": ablation})
    assert told in caught.value.message
    amended = caught.value.details["amend"]["search"]
    assert amended == {"ablation": right}
    starts(refusing, amended)


@pytest.mark.requirement("TUNE-5", "GATE-4")
def test_a_study_of_too_many_runs_is_refused_with_their_number(refusing: Workspace) -> None:
    factors = {key: [one / 100 for one in range(2, 21)] for key in (RATE, DECAY, "model.args.dropout")}
    with pytest.raises(ConfigurationError, match="takes 1160 runs; at most 1000"):
        start_study(refusing, "digits", search={"ablation": {"factors": factors, "repeats": 20}})


@pytest.mark.requirement("TUNE-5", "MCP-3")
@pytest.mark.parametrize("search", [{"ablation": {}}, {"ablation": None}, {"ablation": {"factors": {"seed": [1]}}}])
def test_one_without_any_factor_gets_an_example_that_starts(refusing: Workspace, search: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        start_study(refusing, "digits", search=search)
    starts(refusing, caught.value.details["amend"]["search"])


@pytest.mark.requirement("TUNE-5", "GATE-4")
def test_its_runs_are_reserved_beforehand_and_a_study_beyond_the_limit_is_refused(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    make_project(workspace, limits={"trials": 12})
    view = start_study(workspace, "digits", search=PLAIN)
    assert (view.trials_total, view.best) == (10, None)
    assert view.ablation is not None
    assert len(view.ablation["seeds"]) == 5
    with workspace.session() as session:
        assert limits.count_trials(session, "digits") == (0, 10)
    with pytest.raises(LimitReachedError, match="asks for 6 trials; trials has 2 left of 12"):
        start_study(workspace, "digits", search={"ablation": {"factors": {DECAY: [0.3]}, "repeats": 3}})


@pytest.mark.requirement("TUNE-5", "PHASE-1")
def test_without_a_baseline_there_is_nothing_to_compare_with(workspace: Workspace) -> None:
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
    config = {"model": {"use": "mlp"}, "data": {"use": "digits"}, "optimizer": {"learning_rate": 1e-6},
              "metrics": ["accuracy"]}  # fmt: skip
    create_project(workspace, "new", intent="", goal=goal, config=config)
    with pytest.raises(GateRefusedError, match="needs the diagnostics phase; the project is in planning"):
        start_study(workspace, "new", search=PLAIN)


def settle(workspace: Workspace, outcome: str = "passed") -> None:
    """Let the optimization gate settle on another learning rate."""
    with workspace.session() as session:
        decided = dict(ledger.entries(session, "digits", "gate")[-1][1])
        settled = decided["rested_on"]["values"] | {"optimizer": {"learning_rate": 1e-3}}
        new = {"phase": "optimization", "outcome": outcome, "final_values": settled}
        ledger.append(session, "digits", "gate", decided | new)


@pytest.mark.requirement("TUNE-5", "PHASE-5")
@pytest.mark.parametrize("outcome", ["passed", "skipped"])
def test_where_the_search_is_done_or_skipped_the_settled_configuration_is_the_reference(
    digits: Workspace, outcome: str
) -> None:
    settle(digits, outcome)
    with pytest.raises(ConfigurationError, match="is the present value"):
        start_study(digits, "digits", search=PLAIN)
    view = start_study(digits, "digits", search=SETTLED)
    with digits.session() as session:
        assert get_study(session, view.study_id).base_values["optimizer"] == {"learning_rate": 1e-3}


@pytest.mark.requirement("TUNE-5", "PHASE-5")
def test_the_same_study_is_found_again_and_a_stopped_one_goes_on(digits: Workspace) -> None:
    first = start_study(digits, "digits", search=PLAIN)
    assert start_study(digits, "digits", search=PLAIN).study_id == first.study_id
    assert start_study(digits, "digits", search={"ablation": {RATE: 1e-3}}).study_id == first.study_id
    assert stop_study(digits, first.study_id).state == "stopped"
    assert start_study(digits, "digits", search=PLAIN).study_id == first.study_id
    assert study_status(digits, first.study_id).state == "running"
    space = {RATE: {"type": "float", "low": 1e-4, "high": 1e-1, "log": True}}
    other = start_study(digits, "digits", search={"space": space, "trials": 2})
    assert other.study_id != first.study_id
    with digits.session() as session:
        assert {body["study_id"] for _, body in ledger.entries(session, "digits", "study")} == {other.study_id}


@pytest.mark.requirement("TUNE-5")
def test_one_key_names_no_two_kinds_of_study(digits: Workspace) -> None:
    space = {RATE: {"type": "float", "low": 1e-4, "high": 1e-1, "log": True}}
    start_study(digits, "digits", search=PLAIN, idempotency_key="one")
    with pytest.raises(ConflictError, match="already names the ablation study"):
        start_study(digits, "digits", search={"space": space}, idempotency_key="one")
    start_study(digits, "digits", search={"space": space, "trials": 2}, idempotency_key="two")
    with pytest.raises(ConflictError, match="already names the search"):
        start_study(digits, "digits", search=PLAIN, idempotency_key="two")


@pytest.mark.requirement("TUNE-5", "TUNE-4")
def test_what_draws_a_space_says_that_an_ablation_study_has_none(digits: Workspace) -> None:
    study_id = start_study(digits, "digits", search=PLAIN).study_id
    with pytest.raises(ConflictError, match="is an ablation study") as refused:
        plot_study(digits, study_id, "history")
    assert refused.value.details["next"] == {"tool": "tuning_status", "arguments": {"study_id": study_id}}
