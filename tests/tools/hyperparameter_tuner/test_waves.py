"""Waves and pruning are pure functions of the trial table: no order, no splitting and no late worker changes them."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import Any

import pytest

from trainwright.tools.hyperparameter_tuner.memory_study import pruned_epoch
from trainwright.tools.hyperparameter_tuner.suggest import suggest
from trainwright.tools.hyperparameter_tuner.trials import (
    COMPLETED,
    PRUNED,
    RUNNING,
    TrialRecord,
    seen_by,
    side_by_side,
    wave_of,
)
from trainwright.trainer.config import SearchSection

pytestmark = pytest.mark.slow


KEY = "optimizer.learning_rate"
EPOCHS = 9
TRIALS = 14


def search_of(width: int, pruner: str = "median", trials: int = TRIALS) -> SearchSection:
    return SearchSection.model_validate(
        {
            "present_first": False,
            "trials": trials,
            "width": width,
            "space": {KEY: {"type": "float", "low": 1e-4, "high": 1.0, "log": True}},
            "pruning": {"name": pruner, "startup_trials": 2, "warmup_epochs": 1},
        }
    )


def trained(trial: TrialRecord) -> dict[int, float]:
    """The trial's values by epoch: best at a rate of 0.03, with a noise of its own."""
    rate, noise = trial.parameters[KEY], random.Random(trial.number)
    return {epoch: -abs(rate - 0.03) * 5.0 - 1.0 / epoch + noise.uniform(0.0, 0.2) for epoch in range(1, EPOCHS + 1)}


def ended(search: SearchSection, table: list[TrialRecord], number: int) -> TrialRecord:
    trial, values = table[number], trained(table[number])
    seen = seen_by(number, search.width, table)
    at, attributes = pruned_epoch(search, "maximize", seen, trial, values, epochs=EPOCHS)
    if at is not None:
        kept = {epoch: value for epoch, value in values.items() if epoch <= at}
        return replace(trial, state=PRUNED, intermediate=kept, attributes=attributes)
    best = max(values.values())
    return replace(trial, state=COMPLETED, value=best, intermediate=values, attributes=attributes)


def conducted(search: SearchSection, draw: random.Random, table: list[TrialRecord]) -> list[TrialRecord]:
    """Go on with a table up to the study's trials; those of a wave end in a drawn order."""
    table = list(table)
    while len(table) < search.trials:
        wave = range(len(table), min(wave_of(len(table), search.width).stop, search.trials))
        for number in wave:
            parameters, attributes = suggest(search, "maximize", seen_by(number, search.width, table))
            table.append(TrialRecord(number, parameters, attributes=attributes))
        for number in draw.sample(wave, len(wave)):
            table[number] = ended(search, table, number)
    return table


@pytest.mark.requirement("TUNE-3", "TUNE-7", "PHASE-5")
@pytest.mark.parametrize("pruner", ["none", "median", "hyperband", "successive_halving"])
@pytest.mark.parametrize("width", [1, 4])
def test_order_within_a_wave_and_splitting_change_nothing(width: int, pruner: str) -> None:
    search = search_of(width, pruner)
    whole = conducted(search, random.Random(0), [])
    assert {trial.state for trial in whole} <= {COMPLETED, PRUNED}
    assert (PRUNED in {trial.state for trial in whole}) is (pruner != "none")
    for seed, first in ((1, 5), (3, TRIALS)):
        draw = random.Random(seed)
        part = conducted(search_of(width, pruner, first), draw, [])
        assert conducted(search, draw, part) == whole


@pytest.mark.requirement("TUNE-3", "TUNE-7")
def test_a_trial_sees_earlier_waves_whole_and_of_its_own_the_parameters_alone() -> None:
    table = [
        TrialRecord(n, {KEY: 0.1 * n}, COMPLETED, 1.0, {1: 1.0}, {"asked": n, "completed_rung_0": 1.0, "cause": {}})
        for n in range(6)
    ]
    seen = seen_by(5, 4, table)
    assert seen[:4] == table[:4]
    assert seen[4] == TrialRecord(4, {KEY: 0.4}, RUNNING, None, {}, {"asked": 4})
    assert len(seen) == 5
    assert [list(wave_of(number, 4)) for number in (0, 3, 5)] == [[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.requirement("TUNE-3")
def test_another_trial_of_the_wave_is_kept_away_from() -> None:
    """With the same results, the second of a wave is not suggested what the first was."""
    search = search_of(2, "none")
    whole = conducted(search, random.Random(0), [])
    pairs = [(whole[n].parameters[KEY], whole[n + 1].parameters[KEY]) for n in range(0, TRIALS, 2)]
    assert all(first != second for first, second in pairs)


@pytest.mark.requirement("TUNE-3")
def test_tasks_run_at_once_and_one_that_fails_holds_up_no_other() -> None:
    meeting = threading.Barrier(3, timeout=60)
    done: list[int] = []

    def task(number: int) -> int:
        meeting.wait()  # passes only while all three run
        if number != 2:
            raise ValueError(number)
        done.append(number)
        return number

    with pytest.raises(ValueError, match="0"):
        side_by_side(3, [lambda n=n: task(n) for n in range(3)])  # type: ignore[misc]
    assert done == [2]
    order: list[Any] = side_by_side(1, [threading.current_thread, threading.current_thread])
    assert order == [threading.current_thread()] * 2


LONG = 12


def search_with(name: str, startup_trials: int = 2, warmup_epochs: int = 2) -> SearchSection:
    return SearchSection.model_validate(
        {
            "trials": 30,
            "space": {KEY: {"type": "float", "low": 0.0, "high": 1.0}},
            "pruning": {"name": name, "startup_trials": startup_trials, "warmup_epochs": warmup_epochs},
        }
    )


def curve(quality: float) -> dict[int, float]:
    """Accuracy by epoch, rising towards `quality`."""
    return {epoch: quality * (1.0 - 0.7**epoch) for epoch in range(1, LONG + 1)}


def judged(
    search: SearchSection, trials: list[TrialRecord], quality: float, direction: str = "maximize"
) -> TrialRecord:
    current = TrialRecord(len(trials), {KEY: quality})
    sign = 1.0 if direction == "maximize" else -1.0
    values = {epoch: sign * value for epoch, value in curve(quality).items()}
    decided, attributes = pruned_epoch(search, direction, trials, current, values, epochs=LONG)
    kept = {epoch: value for epoch, value in values.items() if decided is None or epoch <= decided}
    state: dict[str, Any] = {"state": PRUNED} if decided else {"state": COMPLETED, "value": values[LONG]}
    return replace(current, intermediate=kept, attributes=attributes, **state)


def study(search: SearchSection, direction: str = "maximize") -> list[TrialRecord]:
    trials: list[TrialRecord] = []
    for number in range(30):
        trials.append(judged(search, trials, (number * 0.37) % 1.0, direction))
    return trials


@pytest.mark.requirement("TUNE-2")
def test_a_trial_is_not_pruned_after_its_last_epoch() -> None:
    search = search_with("median", startup_trials=3, warmup_epochs=LONG)
    before = [judged(search, [], quality) for quality in (0.9, 0.8, 0.7)]
    before = [replace(trial, number=number) for number, trial in enumerate(before)]
    assert judged(search, before, 0.1).state == COMPLETED


@pytest.mark.requirement("TUNE-2")
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("name", ["median", "hyperband", "successive_halving"])
def test_bad_trials_are_stopped_early_and_the_best_is_not(name: str, direction: str) -> None:
    trials = study(search_with(name), direction)
    pruned = [trial for trial in trials if trial.state == PRUNED]
    spent = sum(max(trial.intermediate) for trial in trials)
    assert pruned
    assert spent < 0.9 * LONG * len(trials)
    assert min(max(trial.intermediate) for trial in pruned) >= 2  # not judged before
    best = max(trials, key=lambda trial: trial.parameters[KEY])
    assert best.state == COMPLETED
    assert study(search_with(name), direction) == trials


@pytest.mark.requirement("TUNE-2", "TUNE-3")
@pytest.mark.parametrize("name", ["median", "hyperband", "successive_halving"])
def test_how_far_the_worker_ran_on_changes_nothing(name: str) -> None:
    search = search_with(name)
    trials = study(search)
    for trial in trials[::3]:
        before = trials[: trial.number]
        values = curve(trial.parameters[KEY])
        fresh = TrialRecord(trial.number, trial.parameters)
        decided = max(trial.intermediate) if trial.state == PRUNED else None
        for seen in range(1, LONG + 1):
            so_far = {epoch: value for epoch, value in values.items() if epoch <= seen}
            found, _ = pruned_epoch(search, "maximize", before, fresh, so_far, epochs=LONG)
            assert found == (decided if decided is not None and decided <= seen else None)


@pytest.mark.requirement("TUNE-2")
def test_the_median_rule_by_hand() -> None:
    search = search_with("median", startup_trials=3, warmup_epochs=2)
    qualities = [0.2, 0.4, 0.6]
    before = [TrialRecord(n, {KEY: q}, COMPLETED, q, curve(q)) for n, q in enumerate(qualities)]
    worse, better = (TrialRecord(3, {KEY: q}) for q in (0.3, 0.5))
    assert pruned_epoch(search, "maximize", before[:2], replace(worse, number=2), curve(0.1), epochs=LONG)[0] is None
    assert pruned_epoch(search, "maximize", before, worse, curve(0.3), epochs=LONG)[0] == 2  # judged from then on
    assert pruned_epoch(search, "maximize", before, better, curve(0.5), epochs=LONG)[0] is None
