"""What a search begins with: the present configuration, guesses, and results of earlier studies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from tests.tools.hyperparameter_tuner.conftest import tried
from tests.worlds.records import Script
from tests.worlds.scripted import Scripted

from trainwright.tools.hyperparameter_tuner import start_study, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.conductor import next_wave
from trainwright.tools.hyperparameter_tuner.start_points import better_before
from trainwright.tools.hyperparameter_tuner.suggest import suggest
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord, trials_of
from trainwright.tools.hyperparameter_tuner.warm_start import known_trials
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study
from trainwright.tools.workspace.tables import Trial
from trainwright.trainer.base.errors import ConfigurationError, ConflictError
from trainwright.trainer.config import SearchSection

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("by_hand")]


RATE, BATCH = "optimizer.learning_rate", "loader.batch_size"
SPACE: dict[str, Any] = {
    RATE: {"type": "float", "low": 1e-7, "high": 1e-1, "log": True},
    BATCH: {"type": "categorical", "choices": [16, 32, 64]},
}
SEARCH: dict[str, Any] = {"trials": 6, "width": 6, "space": SPACE}
PRESENT = {RATE: 1e-6, BATCH: 32}
"""Of the project's configuration; the batch size is a default."""


def wave_of(workspace: Workspace, search: dict[str, Any]) -> list[TrialRecord]:
    return next_wave(workspace, start_study(workspace, "digits", search=search).study_id)


@pytest.mark.requirement("TUNE-3", "GATE-4")
def test_a_wave_that_a_limit_holds_back_says_so_with_the_call_that_asks_for_more(digits: Workspace) -> None:
    notes = start_study(digits, "digits", search=SEARCH).taken_as or []
    [note] = [note for note in notes if "runs_at_once lets 2 run at once" in note]
    assert note.endswith("configure(project='digits', ask_owner={'limits': {'runs_at_once': …}}) asks.")
    narrow = start_study(digits, "digits", search=SEARCH | {"width": 2}).taken_as or []
    assert not [note for note in narrow if "at once" in note]


@pytest.mark.requirement("TUNE-1", "TUNE-5")
def test_the_present_configuration_is_trial_0_and_guesses_follow(digits: Workspace) -> None:
    guesses = [{RATE: 0.01}, {RATE: 0.001, BATCH: 16}, {BATCH: 32}]
    trials = wave_of(digits, SEARCH | {"guesses": guesses})
    assert [trial.parameters for trial in trials[:3]] == [PRESENT, {RATE: 0.01, BATCH: 32}, {RATE: 0.001, BATCH: 16}]
    assert [trial.attributes.get("origin") for trial in trials] == ["present", "guess", "guess", None, None, None]
    assert len({trial.parameters[RATE] for trial in trials}) == 6, "the third guess was the present configuration"
    without = wave_of(digits, SEARCH | {"present_first": False})
    assert all("origin" not in trial.attributes for trial in without)
    assert without[3].parameters == trials[3].parameters, "a trial's number decides what is drawn"


@pytest.mark.requirement("TUNE-1")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"space": {RATE: {**SPACE[RATE], "low": 1e-4}}}, "`optimizer.learning_rate` = 1e-06 is not in its range"),
        ({"constraints": [f"{BATCH} != 32"]}, "it does not meet loader.batch_size != 32"),
        ({"method": "grid", "space": {RATE: {**SPACE[RATE], "points": 3}}}, "is not on the grid of"),
    ],
)
def test_a_present_configuration_outside_the_space_is_said_and_not_tried(
    digits: Workspace, change: dict[str, Any], told: str
) -> None:
    view = start_study(digits, "digits", search=SEARCH | change)
    assert any(told in note for note in view.taken_as or [])
    assert all("origin" not in trial.attributes for trial in next_wave(digits, view.study_id))


@pytest.mark.requirement("TUNE-1")
def test_a_grid_begins_with_the_present_point_and_tries_every_other_once(digits: Workspace) -> None:
    search = {"method": "grid", "width": 9, "space": {BATCH: SPACE[BATCH]}}
    trials = wave_of(digits, search)
    assert [trial.parameters[BATCH] for trial in trials] == [32, 16, 64]


DECAY = "optimizer.weight_decay"


@pytest.mark.requirement("TUNE-1", "TUNE-5")
@pytest.mark.parametrize("method", ["tpe", "grid", "random"])
def test_a_choice_is_one_choice_whether_it_is_written_as_a_whole_number_or_not(method: str) -> None:
    choices = [0, 0.1, 0.3] if method == "grid" else [0, 0.1, 0.3, 1]
    space = {DECAY: {"type": "categorical", "choices": choices}}
    guesses = [] if method == "grid" else [{DECAY: 1.0}]
    section = {"method": method, "trials": 3, "space": space, "guesses": guesses, "present_first": True}
    search = SearchSection.model_validate(section)
    model = {"use": "mlp", "args": {"hidden": [4]}}
    base = {"model": model, "data": {"use": "digits"}, "optimizer": {"weight_decay": 0.0}}
    trials: list[TrialRecord] = []
    for number in range(3):
        parameters, attributes = suggest(search, "maximize", trials, base_values=base)
        known = {"state": "completed", "value": 0.1 * number, "attributes": attributes}
        trials.append(TrialRecord(number=number, parameters=parameters, **known))
    first = [0] if method == "grid" else [0, 1]
    assert [trial.parameters[DECAY] for trial in trials[: len(first)]] == first
    assert all(type(trial.parameters[DECAY]) in {int, float} and trial.parameters[DECAY] in choices for trial in trials)
    assert method != "grid" or [trial.parameters[DECAY] for trial in trials] == choices


@pytest.mark.requirement("TUNE-1", "TUNE-5")
def test_a_table_may_hold_a_choice_in_another_form() -> None:
    space = {DECAY: {"type": "categorical", "choices": [0, 0.1, 0.3]}}
    search = SearchSection.model_validate({"trials": 6, "space": space, "present_first": False})
    values = enumerate((0.0, 0.1, 0.3, 0.0))
    earlier = [TrialRecord(n, {DECAY: value}, "completed", value=0.5 + 0.1 * n) for n, value in values]
    parameters, _ = suggest(search, "maximize", earlier, base_values={})
    assert parameters[DECAY] in [0, 0.1, 0.3]


RANGE = {"type": "float", "low": 1e-4, "high": 1e-1, "log": True}
EARLIER: dict[str, Any] = {"trials": 8, "width": 2, "space": {RATE: RANGE}, "pruning": {"name": "none"}}
WIDER: dict[str, Any] = EARLIER | {
    "seed": 5,
    "space": {RATE: {**RANGE, "low": 2e-4}, BATCH: {"type": "categorical", "choices": [16, 32]}},
}


def section_of(workspace: Workspace, study_id: str) -> SearchSection:
    with workspace.session() as session:
        return SearchSection.model_validate(get_study(session, study_id).search)


@pytest.mark.requirement("TUNE-5", "TUNE-3")
def test_trials_of_an_earlier_study_are_known_results_of_a_later_one(
    by_hand: Scripted, workspace: Workspace, make_project: Callable[..., str]
) -> None:
    by_hand.script = Script(curve=lambda plan, _: {"loss": 0.1, "accuracy": plan.config.optimizer.learning_rate or 0})
    make_project(workspace, training={"epochs": 1})
    first = start_study(workspace, "digits", search=EARLIER).study_id
    tried(workspace, first)
    stop_study(workspace, first)
    with workspace.session() as session:
        earlier = trials_of(session, first)

    warm = start_study(workspace, "digits", search=WIDER | {"warm_start": True}).study_id
    search = section_of(workspace, warm)
    best, *rest = sorted(earlier, key=lambda trial: -(trial.value or 0))
    with workspace.session() as session:
        study = get_study(session, warm)
        found = better_before(session, workspace, study, None)
        assert found is not None
        assert (found.study, found.trial.number) == (first, best.number)
        assert better_before(session, workspace, study, replace(best, value=(best.value or 0) + 0.1)) is None
        assert f"trial {best.number}: {best.value:.6g} by" in found.told()
    others = study_status(workspace, first).others
    assert others is not None
    assert [line.partition(":")[0] for line in others] == [f"trial {trial.number}" for trial in rest[:3]]
    fits = [trial for trial in earlier if trial.parameters[RATE] >= 2e-4]
    assert isinstance(search.warm_start, dict)
    assert search.warm_start[first].trials == [trial.number for trial in fits]
    with workspace.session() as session:
        base = get_study(session, warm).base_values
        known = known_trials(session, search, base)
    assert [(trial.parameters, trial.value) for trial in known] == [
        ({BATCH: 32, RATE: trial.parameters[RATE]}, trial.parameters[RATE]) for trial in fits
    ], "the batch size that they ran with was the configuration's"

    (trial, *_) = next_wave(workspace, warm)
    cold = suggest(search, "maximize", [], base_values=base)[0]
    assert trial.parameters == suggest(search, "maximize", [], base_values=base, known=known)[0]
    assert len(known) >= 6, "TPE models from so many on"
    assert trial.parameters != cold
    for asked in (True, [first]):
        assert start_study(workspace, "digits", search=WIDER | {"warm_start": asked}).study_id == warm
    assert start_study(workspace, "digits", search=WIDER).study_id != warm
    with pytest.raises(ConfigurationError, match="not one of the project's ended studies") as caught:
        start_study(workspace, "digits", search=WIDER | {"seed": 6, "warm_start": ["study-digits-none"]})
    assert "warm_start=true" in caught.value.remedy

    with workspace.session() as session:
        row = session.scalars(select(Trial).where(Trial.study == first, Trial.number == fits[0].number)).one()
        row.value = 0.999
    with workspace.session() as session, pytest.raises(ConflictError, match="no longer those"):
        known_trials(session, search, base)
