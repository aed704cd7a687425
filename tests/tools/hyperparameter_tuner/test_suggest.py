"""Suggestions are a pure function of the search and the trial table."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from trainwright.tools.hyperparameter_tuner.suggest import suggest
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, TrialRecord
from trainwright.trainer.config import SearchSection

pytestmark = pytest.mark.slow

SPACE = {
    "optimizer.learning_rate": {"type": "float", "low": 1e-5, "high": 1e-1, "log": True},
    "training.epochs": {"type": "int", "low": 2, "high": 9},
    "model.args.hidden": {"type": "categorical", "choices": [[16], [32, 32], None]},
}


def search_with(method: str, seed: int = 42) -> SearchSection:
    return SearchSection.model_validate({"method": method, "trials": 24, "seed": seed, "space": SPACE})


def value_of(parameters: dict[str, Any]) -> float:
    """A smooth objective with its best at 1e-3, two layers and many epochs."""
    distance = abs(math.log10(parameters["optimizer.learning_rate"]) + 3.0)
    return (
        -distance - (0.0 if parameters["model.args.hidden"] == [32, 32] else 0.5) + 0.02 * parameters["training.epochs"]
    )


def table_of(search: SearchSection, count: int) -> list[TrialRecord]:
    trials: list[TrialRecord] = []
    for number in range(count):
        parameters, attributes = suggest(search, "maximize", trials)
        trials.append(
            TrialRecord(number, parameters, state=COMPLETED, value=value_of(parameters), attributes=attributes)
        )
    return trials


@pytest.mark.requirement("TUNE-1")
@pytest.mark.parametrize("method", ["tpe", "random"])
def test_suggestions_stay_in_the_space_and_differ(method: str) -> None:
    parameters = [trial.parameters for trial in table_of(search_with(method), 20)]
    assert all(1e-5 <= p["optimizer.learning_rate"] <= 1e-1 for p in parameters)
    assert {type(p["training.epochs"]) for p in parameters} == {int}
    assert all(2 <= p["training.epochs"] <= 9 for p in parameters)
    assert all(p["model.args.hidden"] in ([16], [32, 32], None) for p in parameters)
    assert len({p["optimizer.learning_rate"] for p in parameters}) == 20
    small = [p for p in parameters if p["optimizer.learning_rate"] < 1e-3]
    assert 5 <= len(small) <= 15 or method == "tpe"  # logarithmic: half of the draws lie below the geometric middle


@pytest.mark.requirement("TUNE-1")
def test_tpe_learns_from_the_values_and_random_does_not() -> None:
    for method, learns in (("tpe", True), ("random", False)):
        search = search_with(method)
        trials = table_of(search, 12)
        upside_down = [replace(trial, value=-(trial.value or 0.0)) for trial in trials]
        same = suggest(search, "maximize", trials)[0] == suggest(search, "maximize", upside_down)[0]
        assert same is not learns
    values = [trial.value or 0.0 for trial in table_of(search_with("tpe"), 24)]
    assert sum(values[-8:]) / 8 > sum(values[:8]) / 8


@pytest.mark.requirement("TUNE-3")
def test_another_seed_searches_elsewhere() -> None:
    assert suggest(search_with("tpe", 1), "maximize", [])[0] != suggest(search_with("tpe", 2), "maximize", [])[0]


@pytest.mark.requirement("TUNE-5")
def test_failed_pruned_and_running_trials_are_taken_into_account() -> None:
    search = search_with("tpe")
    trials = table_of(search, 10)
    trials[3] = replace(trials[3], state=FAILED, value=None, attributes={"cause": {"category": "divergence"}})
    trials[4] = replace(trials[4], state=PRUNED, value=None, intermediate={1: -9.0})
    running = TrialRecord(10, trials[0].parameters)
    after = suggest(search, "maximize", [*trials, running])[0]
    assert after == suggest(search, "maximize", [*trials, running])[0]
    assert after != suggest(search, "maximize", trials)[0]
