"""Pruning is a pure function of the trial table and of the epochs so far."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trainwright.tools.hyperparameter_tuner.prune import pruned_epoch
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, PRUNED, TrialRecord
from trainwright.trainer.config import SearchSection

EPOCHS = 12
KEY = "optimizer.learning_rate"


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
    return {epoch: quality * (1.0 - 0.7**epoch) for epoch in range(1, EPOCHS + 1)}


def judged(
    search: SearchSection, trials: list[TrialRecord], quality: float, direction: str = "maximize"
) -> TrialRecord:
    current = TrialRecord(len(trials), {KEY: quality})
    sign = 1.0 if direction == "maximize" else -1.0
    values = {epoch: sign * value for epoch, value in curve(quality).items()}
    decided, attributes = pruned_epoch(search, direction, trials, current, values, epochs=EPOCHS)
    kept = {epoch: value for epoch, value in values.items() if decided is None or epoch <= decided}
    state: dict[str, Any] = {"state": PRUNED} if decided else {"state": COMPLETED, "value": values[EPOCHS]}
    return replace(current, intermediate=kept, attributes=attributes, **state)


def study(search: SearchSection, direction: str = "maximize") -> list[TrialRecord]:
    trials: list[TrialRecord] = []
    for number in range(30):
        trials.append(judged(search, trials, (number * 0.37) % 1.0, direction))
    return trials


@pytest.mark.requirement("TUNE-2")
def test_a_trial_is_not_pruned_after_its_last_epoch() -> None:
    search = search_with("median", startup_trials=3, warmup_epochs=EPOCHS)
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
    assert spent < 0.9 * EPOCHS * len(trials)
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
        for seen in range(1, EPOCHS + 1):
            so_far = {epoch: value for epoch, value in values.items() if epoch <= seen}
            found, _ = pruned_epoch(search, "maximize", before, fresh, so_far, epochs=EPOCHS)
            assert found == (decided if decided is not None and decided <= seen else None)


@pytest.mark.requirement("TUNE-2")
def test_the_median_rule_by_hand() -> None:
    search = search_with("median", startup_trials=3, warmup_epochs=2)
    qualities = [0.2, 0.4, 0.6]
    before = [TrialRecord(n, {KEY: q}, COMPLETED, q, curve(q)) for n, q in enumerate(qualities)]
    worse, better = (TrialRecord(3, {KEY: q}) for q in (0.3, 0.5))
    assert pruned_epoch(search, "maximize", before[:2], replace(worse, number=2), curve(0.1), epochs=EPOCHS)[0] is None
    assert pruned_epoch(search, "maximize", before, worse, curve(0.3), epochs=EPOCHS)[0] == 2  # judged from then on
    assert pruned_epoch(search, "maximize", before, better, curve(0.5), epochs=EPOCHS)[0] is None


@pytest.mark.requirement("TUNE-2")
def test_without_pruning_every_trial_runs_to_its_end() -> None:
    assert {trial.state for trial in study(search_with("none"))} == {COMPLETED}
