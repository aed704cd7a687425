"""A search that contradicts itself is refused before the first trial, and a bad range with the search put right."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tools.hyperparameter_tuner.conftest import CONFIG

from trainwright.tools.hyperparameter_tuner.domain import Constraint
from trainwright.tools.hyperparameter_tuner.space import checked_search, with_search
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import SearchSection

RATE, BATCH, NAME = "optimizer.learning_rate", "loader.batch_size", "optimizer.name"
LOG: dict[str, Any] = {"type": "float", "low": 1e-4, "high": 1e-1, "log": True}
BATCHES: dict[str, Any] = {"type": "categorical", "choices": [16, 32, 64]}
MOMENTUM: dict[str, Any] = {"type": "float", "low": 0.5, "high": 0.99}
OPTIMIZERS: dict[str, Any] = {"type": "categorical", "choices": ["adamw", "sgd"]}
SMALL: dict[str, Any] = {"metric": "parameters", "direction": "minimize"}
SIZES: dict[str, Any] = {"type": "int", "low": 1, "high": 1000}


def checked(search: dict[str, Any]) -> SearchSection:
    values, config, _ = with_search(CONFIG, search)
    return checked_search(config.search, values, "digits")


def refused(search: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The error's message, and the search that it gives instead, if it gives one."""
    with pytest.raises(ConfigurationError) as caught:
        checked(search)
    return caught.value.message, caught.value.details.get("amend", {}).get("search", {})


@pytest.mark.requirement("TUNE-1", "MCP-3")
@pytest.mark.parametrize(
    ("search", "told"),
    [
        ({"space": {}}, "at least 1 item"),
        ({"space": {RATE: {"type": "float", "low": 0.1, "high": 0.01}}}, "low < high"),
        ({"space": {"optimizer.weight_decay": {**LOG, "low": 0.0}}}, "`low > 0` with log"),
        ({"space": {RATE: {**LOG, "log": False, "step": 2.0}}}, "`step` 2.0 is larger than the range"),
        ({"space": {RATE: {**LOG, "step": 0.01}}}, "`step` and `log` exclude each other"),
        ({"method": "grid", "space": {RATE: LOG}}, "give it `step` or `points`"),
        ({"space": {NAME: OPTIMIZERS, "optimizer.momentum": MOMENTUM}}, "is not taken by adamw, only by sgd"),
    ],
)
def test_a_bad_range_is_refused_with_a_search_that_is_accepted(search: dict[str, Any], told: str) -> None:
    message, instead = refused(search)
    assert told in message
    assert checked(instead).trials >= 1


@pytest.mark.requirement("TUNE-1", "MCP-3")
@pytest.mark.parametrize(
    ("search", "told"),
    [
        ({"space": {BATCH: {**BATCHES, "choices": [16, 32, 16]}}}, "the choice 16 more than once"),
        ({"method": "grid", "space": {RATE: {**LOG, "points": 1000}, BATCH: SIZES}}, "the grid has 1,000,000 points"),
        ({"method": "random", "space": {RATE: {**LOG, "points": 5}}}, "belongs to method grid"),
        ({"method": "cma_es", "space": {BATCH: BATCHES}}, "the space has choices alone"),
        ({"method": "quasi_random", "warm_start": True, "space": {RATE: LOG}}, "learns nothing from results"),
        ({"method": "nsga2", "space": {RATE: LOG}}, "the search has the goal's metric alone"),
        ({"method": "cma_es", "objectives": [SMALL], "space": {RATE: LOG}}, "the search has several"),
        ({"objectives": [SMALL], "pruning": {"name": "median"}, "space": {RATE: LOG}}, "pruning median compares"),
        ({"objectives": [SMALL], "stop_below_noise": True, "space": {RATE: LOG}}, "the front may still grow"),
        ({"objectives": [SMALL, SMALL], "space": {RATE: LOG}}, "each once"),
        ({"objectives": [{**SMALL, "metric": "loss"}], "space": {RATE: LOG}}, "'loss' is the goal's"),
        ({"space": {RATE: LOG | {"when": {"optimizer.nam": "sgd"}}, NAME: OPTIMIZERS}}, f"did you mean `{NAME}`"),
        (
            {"space": {RATE: {**LOG, "when": {BATCH: 32}}, BATCH: {**BATCHES, "when": {RATE: 0.01}}}},
            f"in a circle: `{RATE}` → `{BATCH}` → `{RATE}`",
        ),
        ({"space": {RATE: {**LOG, "when": {RATE: 0.01}}}}, f"in a circle: `{RATE}` → `{RATE}`"),
        ({"space": {RATE: {**LOG, "when": {BATCH: [32, 48]}}, BATCH: BATCHES}}, "which it never is"),
        ({"space": {BATCH: {**BATCHES, "choices": [16, 16.0, 32]}}}, "has the choice 16 more than once"),
        (
            {"space": {"model.args": {"type": "categorical", "choices": [{"hidden": [16]}, {"hidden": [32]}]},
             "model.args.hidden": {"type": "categorical", "choices": [[16], [32]]}}},
            "`model.args` is searched as a whole, and so is `model.args.hidden` within it",
        ),
        ({"space": {BATCH: BATCHES}, "constraints": [f"{BATCH} % 3 == 0"]}, "none of its 3 points"),
        ({"space": {RATE: LOG}, "constraints": [f"{RATE} > 1"]}, "none of 4,096 points"),
        ({"space": {BATCH: BATCHES}, "constraints": [f"{BATCH} > 16", f"{BATCH} < 32"]}, "contradict each other"),
        ({"space": {BATCH: BATCHES}, "constraints": ["loader.batchsize > 16"]}, f"did you mean `{BATCH}`"),
        ({"space": {BATCH: BATCHES}, "constraints": ["training.epochs > 1"]}, "names no key that is searched"),
        ({"space": {BATCH: BATCHES}, "constraints": [f"{BATCH} >"]}, "cannot be read"),
        ({"space": {BATCH: BATCHES}, "constraints": [f"open({BATCH}) == 1"]}, "is not taken"),
        ({"space": {BATCH: BATCHES}, "guesses": [{BATCH: 48}, {BATCH: 64}]}, f"`{BATCH}` = 48 is not in its range"),
        ({"space": {BATCH: BATCHES}, "guesses": [{"batch_size": 64}]}, f"is not searched; did you mean `{BATCH}`"),
        ({"space": {BATCH: BATCHES, RATE: LOG}, "guesses": [{BATCH: 64}]}, "leaves `optimizer.learning_rate` out"),
        ({"trials": 1, "space": {BATCH: BATCHES}, "guesses": [{BATCH: 64}]}, "are 2 trials, and the search has 1"),
        (
            {"space": {BATCH: BATCHES, "training.epochs": {**SIZES, "when": {BATCH: 16}}},
             "guesses": [{BATCH: 32, "training.epochs": 2}]},
            "searched only when",
        ),
        ({"space": {BATCH: BATCHES}, "constraints": [f"{BATCH} < 64"], "guesses": [{BATCH: 64}]}, "does not meet"),
    ],
)  # fmt: skip
def test_a_search_that_contradicts_itself_is_refused_with_the_rule(search: dict[str, Any], told: str) -> None:
    message, instead = refused(search)
    assert told in message
    assert not instead, "which part of it is meant is the caller's to say"


@pytest.mark.requirement("TUNE-1")
def test_a_remedy_keeps_what_was_meant() -> None:
    _, instead = refused({"space": {"optimizer.learning_rte": LOG, BATCH: BATCHES}, "seed": 3})
    assert instead == {"space": {RATE: LOG, BATCH: BATCHES}, "seed": 3}
    _, instead = refused({"space": {"model.args.dropout": {"type": "float", "low": 0.0, "high": 1.0}}})
    assert instead["space"]["model.args.dropout"]["high"] == 0.99


@pytest.mark.requirement("TUNE-1")
def test_a_grid_has_its_points_as_trials_unless_fewer_are_asked_for() -> None:
    space = {RATE: {**LOG, "points": 4}, BATCH: BATCHES}
    assert checked({"method": "grid", "space": space}).trials == 12
    assert checked({"method": "grid", "space": space, "trials": 5}).trials == 5
    assert checked({"method": "grid", "space": space, "trials": 50}).trials == 12
    assert checked({"method": "grid", "space": space, "constraints": [f"{BATCH} > 16"]}).trials == 8
    only = {BATCH: BATCHES, RATE: {**LOG, "points": 4, "when": {BATCH: 32}}}
    assert checked({"method": "grid", "space": only}).trials == 2 + 4
    many = {BATCH: SIZES, "training.epochs": {"type": "int", "low": 1, "high": 100, "when": {BATCH: 7}}}
    assert checked({"method": "grid", "space": many}).trials == 999 + 100, "of a product of 100,000"


@pytest.mark.requirement("TUNE-1")
@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("a.width % a.heads == 0", True),
        ("a.width % 5 == 0", False),
        ("8 <= a.width < 64 and not a.flag", True),
        ("a.name in ['sgd', 'lars'] or a.heads > 100", True),
        ("a.name not in ('sgd',)", False),
        ("max(a.heads, 3) * 2 - abs(-1) == 7", True),
        ("len(a.hidden) == 2 and a.none == null and a.flag == false", True),
        ("a.width / (a.heads - 4) > 0", False),  # nothing is divided by zero: the constraint is not met
        ("a.none + 1 > 0", False),
        ("a.name * 1000000000 == 1", False),
        ("-a.width // 3 < +a.heads", True),
    ],
)
def test_constraints_are_arithmetic_over_keys(text: str, *, holds: bool) -> None:
    values = {"a.width": 32, "a.heads": 4, "a.name": "sgd", "a.flag": False, "a.none": None, "a.hidden": [8, 8]}
    assert Constraint(text).holds(values) is holds


@pytest.mark.requirement("TUNE-1")
@pytest.mark.parametrize(
    "text",
    ["a.b ** 9 > 1", "(lambda: 1)() == 1", "[x for x in a]", "a['b'] == 1", "a.b if a.c else 1", "~a.b == 1", "1 << 9",
     "f'{a.b}' == 1", "a.b is None", "min(a, key=abs)", "print(1)", "a := 1", "b'x' == a", " and ".join(["a"] * 120)],
)  # fmt: skip
def test_nothing_else_is_evaluated(text: str) -> None:
    with pytest.raises(ValueError, match="constraint"):
        Constraint(text)


@pytest.mark.requirement("TUNE-1")
def test_keys_within_one_another_may_be_searched_under_different_values_of_a_third() -> None:
    whole = {"type": "categorical", "choices": [{"hidden": [16]}, {"hidden": [32]}], "when": {BATCH: 16}}
    inner = {"type": "categorical", "choices": [[16], [32]]}
    space = {BATCH: BATCHES, "model.args": whole}
    assert checked({"space": space | {"model.args.hidden": inner | {"when": {BATCH: [32, 64]}}}}).trials >= 1
    message, _ = refused({"space": space | {"model.args.hidden": inner | {"when": {BATCH: [16, 64]}}}})
    assert "is searched as a whole" in message
