"""Every method is a pure function of the search and of earlier waves, over conditional and constrained spaces too."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import pytest
from tests.function_text import body_of

from trainwright.tools.hyperparameter_tuner.memory_study import pruned_epoch
from trainwright.tools.hyperparameter_tuner.methods import LEARNING, METHODS
from trainwright.tools.hyperparameter_tuner.methods.cma_es import GENERATION, POINT
from trainwright.tools.hyperparameter_tuner.suggest import suggest
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, TrialRecord, seen_by, wave_of
from trainwright.trainer.config import SearchSection

pytestmark = pytest.mark.slow

RATE, NAME, MOMENTUM, WIDTH, HEADS = (
    "optimizer.learning_rate", "optimizer.name", "optimizer.momentum", "model.args.width", "model.args.heads",
)  # fmt: skip
SPACE: dict[str, Any] = {
    RATE: {"type": "float", "low": 1e-4, "high": 1.0, "log": True},
    NAME: {"type": "categorical", "choices": ["adamw", "sgd"]},
    MOMENTUM: {"type": "float", "low": 0.5, "high": 0.95, "step": 0.05, "when": {NAME: "sgd"}},
    WIDTH: {"type": "int", "low": 8, "high": 64, "step": 4},
    HEADS: {"type": "int", "low": 1, "high": 8},
}
FITS = f"{WIDTH} % {HEADS} == 0 and ({NAME} == 'adamw' or {RATE} >= 0.001)"
BASE = {"model": {"use": "models.py:build"}, "data": {"use": "digits"}}
ALL = sorted(set(METHODS))
FEW = {"gaussian_process": 10}
"""Trials of a study whose every suggestion costs about a second of one core; 20 of any other."""
FINITE: dict[str, Any] = SPACE | {
    RATE: {"type": "float", "low": 1e-3, "high": 1e-1, "log": True, "points": 3},
    WIDTH: {"type": "int", "low": 8, "high": 16, "step": 4},
    HEADS: {"type": "int", "low": 1, "high": 4},
    MOMENTUM: {"type": "float", "low": 0.5, "high": 0.9, "step": 0.4, "when": {NAME: ["sgd"]}},
}


def suggest_again() -> None:
    import json
    import sys

    from trainwright.tools.hyperparameter_tuner.suggest import suggest
    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord
    from trainwright.trainer.config import SearchSection

    said = []
    for given, base, table in json.load(sys.stdin):
        search = SearchSection.model_validate(given)
        trials = [
            TrialRecord(**(row | {"intermediate": {int(k): v for k, v in row["intermediate"].items()}}))
            for row in table
        ]
        last = range(len(trials) - 2, len(trials))
        said.append([suggest(search, "maximize", trials[:n], base_values=base)[0] for n in last])
    print(json.dumps(said))


def search_of(method: str, trials: int, width: int = 1, **more: Any) -> SearchSection:
    space = FINITE if method == "grid" else SPACE
    own = {"method": method, "trials": trials, "width": width, "space": space}
    given = own | {"constraints": [FITS], "present_first": False} | more
    return SearchSection.model_validate(given)


def ended(trial: TrialRecord) -> TrialRecord:
    """The trial's result: best at a rate of 0.03 and few heads; every fifth is pruned, and every seventh fails."""
    if trial.number % 7 == 6:
        return replace(trial, state=FAILED, attributes=trial.attributes | {"cause": {"category": "divergence"}})
    parameters = trial.parameters
    value = -abs(math.log10(parameters[RATE]) + 1.5) - 0.1 * parameters[HEADS] + parameters.get(MOMENTUM, 0.6)
    if trial.number % 5 == 4:
        return replace(trial, state=PRUNED, intermediate={1: value - 0.5})
    return replace(trial, state=COMPLETED, value=value, intermediate={1: value - 0.2, 2: value})


def conducted(search: SearchSection, table: list[TrialRecord], seed: int = 0) -> list[TrialRecord]:
    """Go on with a table up to the study's trials; those of a wave end in a drawn order."""
    table, draw = list(table), random.Random(seed)
    while len(table) < search.trials:
        wave = range(len(table), min(wave_of(len(table), search.width).stop, search.trials))
        for number in wave:
            seen = seen_by(number, search.width, table)
            parameters, attributes = suggest(search, "maximize", seen, base_values=BASE)
            table.append(TrialRecord(number, parameters, attributes=attributes))
        for number in draw.sample(wave, len(wave)):
            table[number] = ended(table[number])
    return table


@cache
def study_of(method: str, width: int) -> tuple[TrialRecord, ...]:
    """The whole study of a method, which several tests read."""
    return tuple(conducted(search_of(method, FEW.get(method, 20), width), []))


@pytest.mark.requirement("TUNE-1", "TUNE-3", "TUNE-7")
@pytest.mark.parametrize("width", [pytest.param(1, marks=pytest.mark.long), 3])
@pytest.mark.parametrize("method", ALL)
def test_a_study_in_parts_and_in_any_order_within_a_wave_has_the_same_trials(method: str, width: int) -> None:
    trials, whole = FEW.get(method, 20), study_of(method, width)
    part = conducted(search_of(method, 5, width), [], seed=1)
    assert conducted(search_of(method, trials, width), part, seed=2) == list(whole)


@pytest.mark.long
@pytest.mark.requirement("TUNE-1", "TUNE-3")
def test_another_process_suggests_the_same_from_the_same_tables() -> None:
    """The last trials of every method: those that a model of the earlier ones suggests."""
    tables = {method: study_of(method, 1) for method in ALL}
    order = [
        [search_of(method, len(table)).model_dump(mode="json"), BASE, [asdict(trial) for trial in table]]
        for method, table in tables.items()
    ]
    said = subprocess.run(
        [sys.executable, "-P", "-c", body_of(suggest_again)],
        input=json.dumps(order),
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert json.loads(said) == [[trial.parameters for trial in table[-2:]] for table in tables.values()]


@pytest.mark.requirement("TUNE-1")
@pytest.mark.parametrize("method", ALL)
def test_conditions_and_constraints_hold_for_every_trial(method: str) -> None:
    trials = study_of(method, 3)
    for trial in trials:
        parameters = trial.parameters
        assert (MOMENTUM in parameters) is (parameters[NAME] == "sgd")
        assert parameters[WIDTH] % parameters[HEADS] == 0
        assert parameters[WIDTH] % 4 == 0
        assert 1e-4 <= parameters[RATE] <= 1.0
        assert parameters[NAME] == "adamw" or parameters[RATE] >= 0.001
        steps = (parameters.get(MOMENTUM, 0.5) - 0.5) / 0.05
        assert abs(steps - round(steps)) < 1e-6
        assert {type(parameters[WIDTH]), type(parameters[RATE])} == {int, float}
    assert len({json.dumps(trial.parameters, sort_keys=True) for trial in trials}) >= 0.7 * len(trials)
    assert {trial.parameters[NAME] for trial in trials} == {"adamw", "sgd"}


@pytest.mark.requirement("TUNE-1")
@pytest.mark.parametrize(("method", "learns"), [(name, name in LEARNING) for name in ALL])
def test_models_learn_from_results_and_the_others_do_not(method: str, *, learns: bool) -> None:
    search, trials = search_of(method, FEW.get(method, 20)), study_of(method, 1)
    upside_down = [replace(trial, value=None if trial.value is None else -trial.value) for trial in trials]
    there = suggest(search, "maximize", trials, base_values=BASE)[0]
    assert (suggest(search, "maximize", upside_down, base_values=BASE)[0] == there) is not learns
    other = search_of(method, 20, seed=7)
    assert (suggest(other, "maximize", [], base_values=BASE)[0] == trials[0].parameters) is (method == "grid")


@pytest.mark.requirement("TUNE-1")
def test_later_trials_of_tpe_are_better() -> None:
    space = {
        RATE: {"type": "float", "low": 1e-5, "high": 1e-1, "log": True},
        "training.epochs": {"type": "int", "low": 2, "high": 9},
        "model.args.hidden": {"type": "categorical", "choices": [[16], [32, 32], None]},
    }
    search = SearchSection.model_validate({"method": "tpe", "trials": 24, "space": space, "present_first": False})
    table: list[TrialRecord] = []
    for number in range(24):
        found, attributes = suggest(search, "maximize", table)
        value = -abs(math.log10(found[RATE]) + 3.0) - 0.5 * (found["model.args.hidden"] != [32, 32])
        value += 0.02 * found["training.epochs"]
        table.append(TrialRecord(number, found, state=COMPLETED, value=value, attributes=attributes))
    values = [trial.value or 0.0 for trial in table]
    assert sum(values[-8:]) > sum(values[:8])


@pytest.mark.requirement("TUNE-1")
def test_a_grid_is_every_point_once_in_a_fixed_order() -> None:
    space = {
        RATE: {"type": "float", "low": 0.001, "high": 0.1, "log": True, "points": 3},
        HEADS: {"type": "int", "low": 2, "high": 6, "step": 2},
        MOMENTUM: {"type": "float", "low": 0.1, "high": 0.4, "step": 0.1},
    }
    search = SearchSection.model_validate({"method": "grid", "trials": 36, "space": space, "present_first": False})
    points = [suggest(search, "minimize", [TrialRecord(n, {}) for n in range(number)])[0] for number in range(36)]
    found = [(p[HEADS], round(p[RATE], 9), p[MOMENTUM]) for p in points]
    expected = [
        (heads, rate, step) for heads in (2, 4, 6) for rate in (0.001, 0.01, 0.1) for step in (0.1, 0.2, 0.3, 0.4)
    ]
    assert found == expected, "the last key by name changes first"


@pytest.mark.requirement("TUNE-1")
def test_a_quasi_random_search_leaves_no_part_of_the_space_out() -> None:
    space = {RATE: SPACE[RATE], HEADS: SPACE[HEADS]}
    given = {"method": "quasi_random", "trials": 64, "space": space, "present_first": False}
    search = SearchSection.model_validate(given)
    found = [suggest(search, "minimize", [TrialRecord(n, {}) for n in range(number)])[0] for number in range(64)]
    cells = {(int(2 * (math.log10(p[RATE]) + 4)), p[HEADS]) for p in found}
    assert len(cells) == 64, "eight parts of the rate by eight heads, each once: a net"


@pytest.mark.requirement("TUNE-1", "TUNE-2")
@pytest.mark.parametrize("method", ["tpe", "cma_es"])
def test_what_a_method_keeps_with_a_trial_survives_its_pruning(method: str) -> None:
    search = search_of(method, 20, pruning={"name": "median", "startup_trials": 1, "warmup_epochs": 0})
    trials = study_of(method, 1)
    fresh = TrialRecord(20, trials[-1].parameters, attributes=trials[-1].attributes)
    at, kept = pruned_epoch(search, "maximize", trials, fresh, {1: -9.0, 2: -9.0}, epochs=2)
    assert at == 1
    assert kept | trials[-1].attributes == kept


@pytest.mark.requirement("TUNE-1")
def test_cma_es_ranks_what_was_pruned_and_failed_and_closes_in() -> None:
    numbers = {RATE: SPACE[RATE], "optimizer.weight_decay": {"type": "float", "low": 0.0, "high": 1.0}}
    given = {"method": "cma_es", "trials": 80, "width": 4, "space": numbers, "present_first": False}
    search = SearchSection.model_validate(given)
    table: list[TrialRecord] = []
    for number in range(80):
        parameters, attributes = suggest(search, "minimize", seen_by(number, 4, table))
        value = (math.log10(parameters[RATE]) + 1) ** 2 + (parameters["optimizer.weight_decay"] - 0.3) ** 2
        state = FAILED if value > 6 else PRUNED if value > 3 else COMPLETED
        kept = {1: value} if state != FAILED else {}
        value_told = value if state == COMPLETED else None
        table.append(TrialRecord(number, parameters, state, value_told, kept, attributes))
    assert [trial.attributes[GENERATION] for trial in table] == [number // 8 for number in range(80)], "waves of four"
    assert all(len(trial.attributes[POINT]) == 2 for trial in table)
    last = [trial.value for trial in table[-8:]]
    assert max(value for value in last if value is not None) < 0.2
    assert None not in last
