"""The first trials are given: the present configuration, then guesses; a study of an earlier version keeps its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner import start_study, stop_study
from trainwright.tools.hyperparameter_tuner.conductor import next_wave
from trainwright.tools.hyperparameter_tuner.suggest import suggest
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord
from trainwright.tools.ledger.events import StudyChanged
from trainwright.tools.workspace.records import get_study
from trainwright.tools.workspace.tables import now
from trainwright.trainer.config import SearchSection

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainwright.tools.workspace import Workspace

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
def test_a_wave_that_a_limit_holds_back_says_so_with_the_call_that_asks_for_more(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    make_project(workspace)
    notes = start_study(workspace, "digits", search=SEARCH).taken_as or []
    [note] = [note for note in notes if "runs_at_once lets 2 run at once" in note]
    assert note.endswith("configure(project='digits', ask_owner={'limits': {'runs_at_once': …}}) asks.")
    narrow = start_study(workspace, "digits", search=SEARCH | {"width": 2}).taken_as or []
    assert not [note for note in narrow if "at once" in note]


@pytest.mark.requirement("TUNE-1", "TUNE-5")
def test_the_present_configuration_is_trial_0_and_guesses_follow(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    make_project(workspace)
    guesses = [{RATE: 0.01}, {RATE: 0.001, BATCH: 16}, {BATCH: 32}]
    trials = wave_of(workspace, SEARCH | {"guesses": guesses})
    assert [trial.parameters for trial in trials[:3]] == [PRESENT, {RATE: 0.01, BATCH: 32}, {RATE: 0.001, BATCH: 16}]
    assert [trial.attributes.get("origin") for trial in trials] == ["present", "guess", "guess", None, None, None]
    assert len({trial.parameters[RATE] for trial in trials}) == 6, "the third guess was the present configuration"
    without = wave_of(workspace, SEARCH | {"present_first": False})
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
    workspace: Workspace, make_project: Callable[..., str], change: dict[str, Any], told: str
) -> None:
    make_project(workspace)
    view = start_study(workspace, "digits", search=SEARCH | change)
    assert any(told in note for note in view.taken_as or [])
    assert all("origin" not in trial.attributes for trial in next_wave(workspace, view.study_id))


@pytest.mark.requirement("TUNE-1")
def test_a_grid_begins_with_the_present_point_and_tries_every_other_once(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    make_project(workspace)
    search = {"method": "grid", "width": 9, "space": {BATCH: SPACE[BATCH]}}
    trials = wave_of(workspace, search)
    assert [trial.parameters[BATCH] for trial in trials] == [32, 16, 64]


@pytest.mark.requirement("TUNE-3", "TUNE-5")
def test_a_study_of_an_earlier_version_is_found_again_and_keeps_its_trials(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    make_project(workspace)
    first = start_study(workspace, "digits", search=SEARCH | {"seed": 1})
    with workspace.session() as session:
        study = get_study(session, first.study_id)
        had = ("method", "trials", "width", "seed", "pruning", "stalled_seconds", "confirmation_repeats")
        ranges = {key: {name: value for name, value in range_.items() if name not in {"step", "points", "when"}}
                  for key, range_ in study.search["space"].items()}  # fmt: skip
        stored = {name: study.search[name] for name in had} | {"space": ranges, "seed": 42}
        old = StudyChanged(
            study_id="study-digits-of-old", state="running", search=stored, objective=study.objective,
            base_config_digest=study.base_config_digest, created_at=now(),
        )  # fmt: skip
        ledger.record(session, "digits", old)
    stop_study(workspace, "study-digits-of-old")
    again = start_study(workspace, "digits", search=SEARCH)
    assert (again.study_id, again.state) == ("study-digits-of-old", "running")
    notes = [note for note in again.taken_as or [] if not note.startswith("width 6")]
    assert not notes, "apart from cores and places there is nothing to say"
    drawn: list[TrialRecord] = []
    for trial in next_wave(workspace, "study-digits-of-old"):
        drawn.append(trial)
        expected = suggest(SearchSection.model_validate(stored), "maximize", drawn[:-1])[0]
        assert trial.parameters == expected
    assert start_study(workspace, "digits", search=SEARCH | {"present_first": True}).study_id != "study-digits-of-old"
    same = start_study(workspace, "digits", search=SEARCH | {"seed": 1})
    assert same.study_id == first.study_id, "what was left open is settled in the stored search"


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
def test_a_table_of_an_earlier_version_holds_a_choice_in_another_form() -> None:
    space = {DECAY: {"type": "categorical", "choices": [0, 0.1, 0.3]}}
    search = SearchSection.model_validate({"trials": 6, "space": space, "present_first": False})
    values = enumerate((0.0, 0.1, 0.3, 0.0))
    earlier = [TrialRecord(n, {DECAY: value}, "completed", value=0.5 + 0.1 * n) for n, value in values]
    parameters, _ = suggest(search, "maximize", earlier, base_values={})
    assert parameters[DECAY] in [0, 0.1, 0.3]
