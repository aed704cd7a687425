"""Everything that can be wrong with a search is said before the first trial."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.tools.hyperparameter_tuner.conftest import CONFIG

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner import start_study, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.conductor import next_wave
from trainwright.tools.hyperparameter_tuner.space import checked_search
from trainwright.tools.projects import create_project
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import (
    ConfigurationError,
    GateRefusedError,
    LimitReachedError,
    NotFoundError,
    TrainwrightError,
)
from trainwright.trainer.config import SearchSection
from trainwright.trainer.run import RunKind

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("by_hand")]

RATE = {"type": "float", "low": 1e-4, "high": 1e-1, "log": True}
SEARCH: dict[str, Any] = {"trials": 4, "space": {"optimizer.learning_rate": RATE}}


@pytest.fixture(scope="module")
def refusing(module_workspace: Workspace, make_project: Callable[..., str]) -> Iterator[Workspace]:
    """A project that no search begins in."""
    make_project(module_workspace)
    yield module_workspace
    with module_workspace.session() as session:
        assert ledger.entries(session, "digits", "study") == []


@pytest.mark.requirement("TUNE-1", "MCP-3")
@pytest.mark.parametrize(
    ("key", "range_", "told"),
    [
        ("optimizer.learning_rte", RATE, "did you mean `optimizer.learning_rate`?"),
        ("optimizer.learning_rate", {"type": "float", "low": -1.0, "high": 0.1}, "= -1.0"),
        ("loader.batch_size", {"type": "float", "low": 8.0, "high": 64.0}, "loader.batch_size"),
        ("schedule.name", {"type": "categorical", "choices": ["cosine", "sideways"]}, "'sideways'"),
    ],
)
def test_a_space_that_does_not_fit_is_refused_by_key(
    refusing: Workspace, key: str, range_: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        start_study(refusing, "digits", search=SEARCH | {"space": {key: range_}})
    assert told in f"{caught.value.message} {caught.value.remedy}"


@pytest.mark.requirement("TUNE-1", "GATE-5")
@pytest.mark.parametrize(
    "key",
    ["seed", "data.split.seed", "selection.metric",
     "data", "data.args", "data.args.size", "data.split.validation", "metrics", "task",
     "task.use", "training", "training.device", "returns", "selection", "deployment.formats", "checkpoints", "logging",
     "reproducibility.threads", "search.trials", "code_root", "objective", "objective.epsilon",
     "objective.evaluation_steps", "objective.clip_range", "objective.tasks.a.weight", "objective.probe_samples"],
)  # fmt: skip
def test_what_decides_the_judgement_is_not_searched_nor_its_parents_or_children(refusing: Workspace, key: str) -> None:
    space = {key: {"type": "categorical", "choices": [{"use": "a"}, {"use": "b"}]}}
    with pytest.raises(ConfigurationError, match=f"`{key}` cannot be searched over"):
        start_study(refusing, "digits", search=SEARCH | {"space": space})


@pytest.mark.requirement("TUNE-1")
def test_arguments_of_the_model_and_of_the_task_are_searched(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    (workspace.path.parent / "own.py").write_text("def build(config, context): ...\n")
    make_project(workspace, "task", task={"use": "own.py:build"}, model=None, data=None)
    width = {"task.args.width": {"type": "int", "low": 4, "high": 8}}
    assert start_study(workspace, "task", search=SEARCH | {"space": width}).state == "running"
    make_project(workspace)
    space = {
        "model.args.hidden": {"type": "categorical", "choices": [[8], [16]]},
        "training.epochs": {"type": "int", "low": 2, "high": 4},
        "loss.use": {"type": "categorical", "choices": ["cross_entropy", "focal"]},
    }
    assert start_study(workspace, "digits", search=SEARCH | {"space": space}).state == "running"


@pytest.mark.requirement("TUNE-1", "MCP-3")
@pytest.mark.parametrize(
    ("space", "told"),
    [
        ({"model.args.width": {"type": "int", "low": 8, "high": 64}}, "at `model.args.width` = 8: "),
        (
            {"model.args.depth": {"type": "int", "low": 1, "high": 4}, "optimizer.learning_rate": RATE},
            "args.depth` = 1",
        ),
        (
            {"loss.use": {"type": "categorical", "choices": ["focal", "mse"]}},
            "= 'mse': a loss for regression, ",
        ),
        ({"loss.use": {"type": "categorical", "choices": ["focal", "dice", "mse"]}}, "`loss.use` = 'mse'"),
        ({"model.args.dropuot": {"type": "float", "low": 40.0, "high": 50.0}}, "at `model.args.dropuot` = 40.0"),
    ],
)
def test_a_refused_search_names_what_was_given_and_its_remedy_is_accepted_as_printed(
    workspace: Workspace, make_project: Callable[..., str], space: dict[str, Any], told: str
) -> None:
    """Q150."""
    make_project(workspace)
    with pytest.raises(ConfigurationError) as caught:
        start_study(workspace, "digits", search=SEARCH | {"space": space})
    assert told in caught.value.message
    assert "search.width" not in caught.value.message
    printed = json.loads(caught.value.remedy.partition("search=")[2].partition("): single")[0])
    assert start_study(workspace, "digits", search=printed).state == "running"


@pytest.mark.requirement("TUNE-1")
def test_losses_are_not_compared_by_a_loss(workspace: Workspace, make_project: Callable[..., str]) -> None:
    config = CONFIG | {"selection": {"metric": "loss", "direction": "minimize"}}
    space = {"loss.use": {"type": "categorical", "choices": ["cross_entropy", "focal"]}}
    search = SearchSection.model_validate(SEARCH | {"space": space})
    with pytest.raises(ConfigurationError, match="results are judged by loss, whose size the loss decides"):
        checked_search(search, config, "digits")


@pytest.mark.parametrize(
    ("search", "error"),
    [
        (None, ConfigurationError),
        ({"trials": 0, "space": {"optimizer.learning_rate": RATE}}, ConfigurationError),
        (SEARCH | {"trails": 3}, ConfigurationError),
        (SEARCH | {"confirmation_seeds": [42, 43, 44]}, ConfigurationError),  # nobody chooses them
        (SEARCH | {"trials": 7}, LimitReachedError),
    ],
)
def test_a_search_that_cannot_run_is_refused(
    workspace: Workspace, make_project: Callable[..., str], search: dict[str, Any] | None, error: type[TrainwrightError]
) -> None:
    make_project(workspace, limits={"trials": 6})
    with pytest.raises(error) as caught:
        start_study(workspace, "digits", search=search)
    assert caught.value.remedy


@pytest.mark.requirement("GATE-4", "TUNE-5")
def test_the_trials_of_all_studies_count_together(workspace: Workspace, make_project: Callable[..., str]) -> None:
    make_project(workspace, limits={"trials": 6})
    first = start_study(workspace, "digits", search=SEARCH)
    assert len(next_wave(workspace, first.study_id)) == 1
    with pytest.raises(LimitReachedError, match=r"2 left of 6 \(3 reserved by searches under way\)"):
        start_study(workspace, "digits", search=SEARCH | {"trials": 3, "seed": 1})
    assert start_study(workspace, "digits", search=SEARCH | {"trials": 2, "seed": 1}).state == "running"
    stop_study(workspace, first.study_id)
    with pytest.raises(LimitReachedError, match="3 left of 6"):
        start_study(workspace, "digits", search=SEARCH | {"trials": 4, "seed": 2})


@pytest.mark.requirement("PHASE-7")
def test_no_study_before_the_phase_permits_trials(workspace: Workspace) -> None:
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.99}
    config = {"model": {"use": "mlp"}, "data": {"use": "digits"}, "metrics": ["accuracy"]}
    create_project(workspace, "early", intent="test", goal=goal, config=config)
    with pytest.raises(GateRefusedError):
        start_study(workspace, "early", search=SEARCH)


@pytest.mark.requirement("MCP-3", "TUNE-5")
def test_the_same_search_or_key_is_the_same_study(digits: Workspace) -> None:
    first = start_study(digits, "digits", search=SEARCH, idempotency_key="a")
    assert start_study(digits, "digits", search=SEARCH).study_id == first.study_id
    assert start_study(digits, "digits", search=SEARCH | {"trials": 5}, idempotency_key="a").study_id == first.study_id
    assert start_study(digits, "digits", search=SEARCH | {"seed": 1}).study_id != first.study_id
    assert start_study(digits, "digits", search=SEARCH, idempotency_key="b").study_id != first.study_id
    assert first.next is not None
    assert (first.next.tool, first.next.arguments["study_id"]) == ("tuning_status", first.study_id)
    with pytest.raises(NotFoundError, match="no study"):
        study_status(digits, "study-digits-none")


@pytest.mark.requirement("MCP-3", "GATE-4")
def test_a_stopped_study_that_its_key_finds_goes_on_with_its_own_search_and_says_so(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    make_project(workspace, limits={"trials": 6})
    own = SEARCH | {"objectives": [{"metric": "parameters", "direction": "minimize", "at_most": 700}]}
    first = start_study(workspace, "digits", search=own, idempotency_key="a")
    stop_study(workspace, first.study_id)
    other = SEARCH | {"trials": 60, "width": 60, "trials_per_gpu": 2}
    again = start_study(workspace, "digits", search=other, idempotency_key="a")
    assert (again.study_id, again.state, again.trials_total) == (first.study_id, "running", 4)
    notes = " ".join(again.taken_as or [])
    assert "within parameters at most 700 is confirmed" in notes
    assert "no trial is pruned" in notes
    assert "trials_per_gpu = 2 is ignored" in notes, "where the trials run is the call's"
    assert "width 60" not in notes


@pytest.mark.requirement("PHASE-8", "TUNE-3")
def test_a_study_is_not_taken_up_again_on_other_data(digits: Workspace) -> None:
    study_id = start_study(digits, "digits", search=SEARCH).study_id
    (trial,) = next_wave(digits, study_id)
    start_run(digits, "digits", RunKind.TRIAL, changes=trial.parameters, study_id=study_id)
    assert start_study(digits, "digits", search=SEARCH).study_id == study_id
    with digits.session() as session:
        (_, planning), *_ = ledger.entries(session, "digits", "gate")
        body = planning | {"rested_on": planning["rested_on"] | {"data": "blake3:other"}}
        ledger.append(session, "digits", "gate", body)
    assert start_study(digits, "digits", search=SEARCH).study_id != study_id
