"""Brackets: the rungs and who goes on by hand, and a real one whose promoted trials train as if never stopped."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.tools.hyperparameter_tuner.conftest import tried
from tests.worlds.records import Script
from tests.worlds.scripted import Scripted

from trainwright.tools.hyperparameter_tuner import start_study, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.halving import PASSED, promoted, rungs
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, PRUNED, RUNNING, TrialRecord, trials_of
from trainwright.tools.launchers import read_launch
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import SearchSection, parse_config
from trainwright.trainer.run import RUNG, RunSpecification

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

RATE = "optimizer.learning_rate"
SPACE = {RATE: {"type": "float", "low": 1e-5, "high": 1e-1, "log": True}}
EPOCHS = 4
SEARCH: dict[str, Any] = {
    "trials": 3,
    "width": 2,
    "method": "random",
    "space": SPACE,
    "pruning": {"name": "successive_halving", "bracket": 3, "warmup_epochs": 1},
}


def search_of(name: str, bracket: int = 9, warmup_epochs: int = 1, **more: int) -> SearchSection:
    pruning = {"name": name, "bracket": bracket, "warmup_epochs": warmup_epochs, **more}
    return SearchSection.model_validate({"trials": 30, "width": 2, "space": SPACE, "pruning": pruning})


@pytest.mark.requirement("TUNE-2")
def test_rungs_by_hand() -> None:
    halving = search_of("successive_halving", 27)
    assert rungs(halving, 0, 27) == rungs(halving, 1, 27) == [1, 3, 9]
    assert rungs(search_of("successive_halving", 30, warmup_epochs=4), 0, 30) == [4, 12]
    assert rungs(halving, 0, 1) == []
    assert rungs(search_of("successive_halving", 8), 0, 27) == [1], "two are left, of which none would be pruned"
    hyperband = search_of("hyperband", 27)
    assert [rungs(hyperband, bracket, 27) for bracket in range(5)] == [[1, 3, 9], [3, 9], [9], [], [1, 3, 9]]
    assert halving.wave == 27


@pytest.mark.requirement("TUNE-2")
@pytest.mark.parametrize(("direction", "sign"), [("maximize", 1.0), ("minimize", -1.0)])
def test_a_third_goes_on_by_the_best_epoch_so_far_and_of_equals_the_earlier(direction: str, sign: float) -> None:
    values = [0.1, 0.7, 0.7, 0.9, 0.2, 0.6, 0.7]
    waiting = [TrialRecord(n, {}, RUNNING, None, {1: sign * value, 2: 0.0}) for n, value in enumerate(values)]
    waiting.append(TrialRecord(7, {}))  # measured nothing
    assert promoted(waiting, direction, 3) == ({3, 1} if direction == "maximize" else {1, 3})
    assert promoted(waiting[7:], direction, 3) == {7}, "a single one is compared with none"


@pytest.mark.requirement("TUNE-2")
@pytest.mark.parametrize(
    ("factor", "expected", "going_on"),
    [(2, [1, 2, 4, 8], {0, 1, 2, 3, 4, 5, 6, 7}), (3, [1, 3], {0, 1, 2, 3, 4}), (4, [1, 4], {0, 1, 2, 3})],
)
def test_the_reduction_factor_spaces_the_rungs_and_is_the_share_that_goes_on(
    factor: int, expected: list[int], going_on: set[int]
) -> None:
    assert rungs(search_of("successive_halving", 16, reduction_factor=factor), 0, 27) == expected
    waiting = [TrialRecord(number, {}, RUNNING, None, {1: -float(number)}) for number in range(16)]
    assert promoted(waiting, "maximize", factor) == going_on


@pytest.mark.requirement("TUNE-2")
def test_a_stored_search_without_a_reduction_factor_is_one_of_three() -> None:
    search = search_of("successive_halving")
    stored = search.model_dump(mode="json")
    del stored["pruning"]["reduction_factor"]
    assert SearchSection.model_validate(stored).pruning.reduction_factor == 3
    assert search.is_answered_by(stored)
    assert not search_of("successive_halving", reduction_factor=2).is_answered_by(stored)


@pytest.mark.requirement("TUNE-2")
@pytest.mark.parametrize(
    ("pruning", "told"),
    [
        ({"name": "median", "reduction_factor": 2}, "`reduction_factor` belongs to hyperband and successive_halving"),
        ({"name": "hyperband", "bracket": 3, "reduction_factor": 4}, "`bracket` 3 is less than `reduction_factor` 4"),
        ({"name": "hyperband", "reduction_factor": 5}, "reduction_factor"),
    ],
)
def test_a_reduction_factor_that_would_prune_nothing_is_refused(pruning: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parse_config({"model": {"use": "mlp"}, "data": {"use": "digits"}, "search": SEARCH | {"pruning": pruning}})


@pytest.mark.requirement("TUNE-2")
def test_a_bracket_belongs_to_a_pruner_that_has_rungs() -> None:
    search = SEARCH | {"pruning": {"name": "median", "bracket": 3}}
    with pytest.raises(ConfigurationError, match="belongs to hyperband and successive_halving"):
        parse_config({"model": {"use": "mlp"}, "data": {"use": "digits"}, "search": search})


@pytest.mark.long
@pytest.mark.requirement("TUNE-2", "TUNE-3", "TUNE-7", "TRAIN-10")
def test_promoted_trials_train_as_if_never_stopped_whatever_is_killed(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    for name in ("whole", "halved"):
        make_project(workspace, name, training={"epochs": EPOCHS})
    whole = start_study(workspace, "whole", search=SEARCH | {"pruning": {"name": "none"}}).study_id
    halved = start_study(workspace, "halved", search=SEARCH).study_id
    killed = None
    for study_id in (halved, whole):
        while (view := study_status(workspace, study_id, 0.3)).trials_done < SEARCH["trials"]:
            assert not view.is_ended, view.failure  # before its trials are done
            if killed is None and view.pruned and view.running_run is not None:  # a promoted one, resumed
                killed = view.running_run
                launch = read_launch(workspace.run_directory("halved", killed).path)
                if launch is not None and launch.process is not None and launch.process.is_alive():
                    os.kill(launch.process.pid, signal.SIGKILL)
        if not study_status(workspace, study_id).is_ended:  # its confirmation is another test's matter
            stop_study(workspace, study_id)
    with workspace.session() as session:
        expected, found = trials_of(session, whole), trials_of(session, halved)
    assert [trial.parameters for trial in found] == [trial.parameters for trial in expected]
    assert [trial.state for trial in expected] == [COMPLETED] * 3
    ranked = sorted(expected, key=lambda trial: -trial.intermediate[1])
    assert {trial.number for trial in found if trial.state == PRUNED} == {trial.number for trial in ranked[1:]}
    for trial, control in zip(found, expected, strict=True):
        last = 1 if trial.state == PRUNED else EPOCHS
        assert trial.intermediate == {n: value for n, value in control.intermediate.items() if n <= last}
        assert trial.value == (None if trial.state == PRUNED else control.value)
        directory = workspace.run_directory("halved", str(trial.run))
        epochs = [event.data["epoch"] for event in directory.events("epoch")]
        assert epochs == list(range(1, last + 1)) or trial.run == killed, "no epoch was trained twice"
        assert (directory.status().stop_reason == RUNG) is (trial.state == PRUNED)
        assert trial.attributes[PASSED] == (0 if trial.state == PRUNED else 1)
    names = {halved, *(str(trial.run) for trial in found)}
    assert [told for told in verify_workspace(workspace.path).problems if any(name in told for name in names)] == []


@pytest.mark.long
@pytest.mark.requirement("TUNE-2", "TUNE-7", "TRAIN-10")
def test_a_longer_study_and_one_that_halves_otherwise_take_over_what_stopped_at_a_rung(
    by_hand: Scripted, workspace: Workspace, make_project: Callable[..., str]
) -> None:
    by_hand.script = Script(curve=curve)
    for name in ("first", "fresh"):
        make_project(workspace, name, training={"epochs": EPOCHS})
    other = SEARCH | {"trials": 4, "pruning": SEARCH["pruning"] | {"bracket": 4, "reduction_factor": 2}}
    three, four, six = (conducted(workspace, "first", search) for search in (SEARCH, other, SEARCH | {"trials": 6}))
    by_rate = sorted(range(3), key=lambda number: -three[number].parameters[RATE])
    assert [three[number].state for number in by_rate] == [COMPLETED, PRUNED, PRUNED], "the highest rate is the best"
    assert [trial.run for trial in six[:3]] == [trial.run for trial in three], "no epoch is trained twice"
    fresh = conducted(workspace, "fresh", other)
    for trial, control in zip(four, fresh, strict=True):
        assert (trial.parameters, trial.state) == (control.parameters, control.state)
        assert (trial.value, trial.intermediate) == (control.value, control.intermediate)
    assert {trial.run for trial in four} & {trial.run for trial in three}, "what stopped at the same rung is taken over"
    for trial in three:
        epochs = [event.data["epoch"] for event in workspace.run_directory("first", str(trial.run)).events("epoch")]
        assert epochs == sorted(trial.intermediate), "another study does not go on with its runs"
    found = verify_workspace(workspace.path).findings
    assert [one.what for one in found if one.where == "study"] == []


def curve(plan: RunSpecification, epoch: int) -> dict[str, float]:
    value = 0.5 + 0.1 * math.log10(plan.config.optimizer.learning_rate or 1e-9) / 10 - 0.1 / epoch
    return {"loss": 1 - value, "accuracy": value}


def conducted(workspace: Workspace, name: str, search: dict[str, Any]) -> list[TrialRecord]:
    study_id = start_study(workspace, name, search=search).study_id
    tried(workspace, study_id)
    with workspace.session() as session:
        return trials_of(session, study_id)
