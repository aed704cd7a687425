"""Contract of the schedules: each is built from its options, warms up, ends where it says, and resumes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.optimization.schedules import SCHEDULES
from trainwright.trainer.optimization.schedules.schedule import Schedule

pytestmark = pytest.mark.requirement("TRAIN-4")

# name: options, first step after a warmup of 10, last of 100 steps
CORNERS: dict[str, tuple[dict[str, Any], float, float]] = {
    "cosine": ({"final_fraction": 0.2}, 1.0, 0.2),
    "constant": ({}, 1.0, 1.0),
    "linear": ({"final_fraction": 0.1}, 1.0, 0.1),
    "polynomial": ({"power": 3.0}, 1.0, 0.0),
    "exponential": ({"final_fraction": 0.05}, 1.0, 0.05),
    "inverse_square_root": ({}, math.sqrt(10 / 11), math.sqrt(10 / 100)),
    "warmup_stable_decay": ({"final_fraction": 0.05}, 1.0, 0.05),
    "one_cycle": ({"initial_fraction": 0.1}, 1.0, 4e-6),
    "cosine_restarts": ({"cycles": 3}, 1.0, (1 + math.cos(math.pi * 29 / 30)) / 2),
    "plateau": ({}, 1.0, 1.0),
}
every = pytest.mark.parametrize("name", CORNERS)


def schedule_of(total: int, **options: Any) -> Schedule:
    values = {"model": {"use": "mlp"}, "data": {"use": "digits"}, "schedule": options}
    return parse_config(values).schedule.build(total)


def test_the_contract_names_every_schedule() -> None:
    assert list(CORNERS) == list(SCHEDULES)


@every
def test_it_warms_up_and_ends_where_it_says(name: str) -> None:
    options, first, last = CORNERS[name]
    schedule = schedule_of(100, name=name, warmup_steps=10, **options)
    rise = [schedule.factor(step) for step in range(10)]
    assert rise == ([(step + 1) / 10 for step in range(10)] if name != "one_cycle" else sorted(rise))
    assert rise[-1] == 1.0
    assert schedule.factor(10) == pytest.approx(first, rel=1e-12 if name != "one_cycle" else 1e-3)
    assert schedule.factor(99) == pytest.approx(last, abs=1e-12)
    if name != "inverse_square_root":  # which falls for ever
        assert schedule.factor(500) == pytest.approx(last, abs=1e-12)
    assert schedule_of(100, name=name, warmup_fraction=0.1).warmup_steps == 10
    if name != "one_cycle":  # of whose cycle the last step is the end
        assert schedule_of(1, name=name).factor(0) == pytest.approx(1.0)


@every
def test_from_its_state_it_continues_to_the_same_rates(name: str) -> None:
    options = {"patience_epochs": 2} if name == "plateau" else {}
    through, resumed = (schedule_of(100, name=name, **options) for _ in range(2))
    for epoch in (1, 2, 3, 4):
        through.observe(0.5, epoch, minimize=True)
    resumed.load_state_dict(through.state_dict())
    for schedule in (through, resumed):
        schedule.observe(0.5, 5, minimize=True)
    assert [through.factor(step) for step in range(100)] == [resumed.factor(step) for step in range(100)]
    assert [through.momentum(step) for step in range(100)] == [resumed.momentum(step) for step in range(100)]


@pytest.mark.requirement("CONF-1")
@every
def test_it_refuses_wrong_options_with_key_value_and_rule(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"`schedule.warmup_fraction` = 1.5.*less than 1"):
        schedule_of(100, name=name, warmup_fraction=1.5)
    with pytest.raises(ConfigurationError, match=r"schedule\.betas"):
        schedule_of(100, name=name, betas=3)
