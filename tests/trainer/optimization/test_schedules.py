"""Schedules against their closed forms, at the corners and against torch's own where it has them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts, OneCycleLR, ReduceLROnPlateau

from trainwright.trainer.config import parse_config
from trainwright.trainer.optimization.schedules import planned_schedule, plot_schedule
from trainwright.trainer.optimization.schedules.schedule import Schedule

pytestmark = pytest.mark.requirement("TRAIN-4")


def schedule_of(total: int, **options: Any) -> Schedule:
    values = {"model": {"use": "mlp"}, "data": {"use": "digits"}, "schedule": options}
    return parse_config(values).schedule.build(total)


MIDDLES: dict[str, tuple[dict[str, Any], Any]] = {
    "cosine": ({"final_fraction": 0.2}, lambda p: 0.2 + 0.8 * (1 + math.cos(math.pi * p)) / 2),
    "linear": ({"final_fraction": 0.2}, lambda p: 1 - 0.8 * p),
    "polynomial": ({"power": 2.0}, lambda p: (1 - p) ** 2),
}


@pytest.mark.parametrize("name", MIDDLES)
def test_the_way_down_is_the_closed_form(name: str) -> None:
    options, form = MIDDLES[name]
    schedule = schedule_of(100, name=name, warmup_steps=10, **options)
    for step in (20, 50, 77):
        assert schedule.factor(step) == pytest.approx(form((step - 10) / 89), rel=1e-12)


@pytest.mark.parametrize("shape", ["linear", "cosine", "one_minus_sqrt"])
def test_warmup_stable_decay_is_stable_and_then_decays(shape: str) -> None:
    schedule = schedule_of(101, name="warmup_stable_decay", warmup_steps=5, decay_fraction=0.2, decay_shape=shape)
    start = 100 - math.ceil(0.2 * 101)
    assert {schedule.factor(step) for step in range(5, start + 1)} == {1.0}
    half = (start + 100) / 2
    wanted = {"linear": 0.5, "cosine": 0.5, "one_minus_sqrt": 1 - math.sqrt((int(half) - start) / (100 - start))}
    assert schedule.factor(int(half)) == pytest.approx(wanted[shape], abs=0.04)
    falling = [schedule.factor(step) for step in range(start, 101)]
    assert falling == sorted(falling, reverse=True)
    whole = schedule_of(100, name="warmup_stable_decay", warmup_steps=10, decay_fraction=1.0)
    assert (whole.factor(10), whole.factor(99)) == (1.0, 0.0), "the decay never begins within the warmup"


def torch_rates(make: Any, steps: int, **options: Any) -> tuple[list[float], list[float]]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0, momentum=0.9)
    scheduler, rates, momenta = make(optimizer, **options), [], []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        momenta.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        scheduler.step()
    return rates, momenta


def test_one_cycle_is_torchs_and_cycles_the_momentum() -> None:
    schedule = schedule_of(100, name="one_cycle", momentum_range=[0.85, 0.95])
    rates, momenta = torch_rates(OneCycleLR, 99, max_lr=1.0, total_steps=100, pct_start=0.3)
    for step in range(99):
        assert schedule.factor(step) == pytest.approx(rates[step], rel=1e-9)
        assert schedule.momentum(step) == pytest.approx(momenta[step], rel=1e-9)
    assert schedule.factor(29) == 1.0
    assert schedule.factor(99) == pytest.approx(4e-6, rel=1e-9)
    assert schedule_of(100, name="one_cycle").momentum(5) is None


@pytest.mark.parametrize(("growth", "cycles", "first_steps", "total"), [(1.0, 4, 25, 100), (2.0, 3, 15, 105)])
def test_cosine_restarts_are_torchs_where_the_borders_are_whole(
    growth: float, cycles: int, first_steps: int, total: int
) -> None:
    schedule = schedule_of(
        total, name="cosine_restarts", warmup_steps=0, cycles=cycles, cycle_growth=growth, final_fraction=0.1
    )
    rates, _ = torch_rates(CosineAnnealingWarmRestarts, total, T_0=first_steps, T_mult=int(growth), eta_min=0.1)
    assert [schedule.factor(step) for step in range(total)] == pytest.approx(rates, rel=1e-9)


@pytest.mark.parametrize("cooldown", [0, 2])
def test_a_plateau_is_lowered_as_torch_lowers_it(cooldown: int) -> None:
    values = [1.0, 0.9, 0.91, 0.92, 0.9, 0.5, 0.5, 0.5, float("nan"), 0.5, 0.6, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4]
    schedule = schedule_of(
        100, name="plateau", warmup_steps=0, factor=0.5, patience_epochs=3, cooldown_epochs=cooldown, final_fraction=0.2
    )
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    reference = ReduceLROnPlateau(
        optimizer, factor=0.5, patience=2, cooldown=cooldown, min_lr=0.2, threshold=0.0, threshold_mode="abs"
    )
    levels = []
    for epoch, value in enumerate(values, 1):
        schedule.observe(value, epoch, minimize=True)
        reference.step(value)
        assert schedule.factor(50) == optimizer.param_groups[0]["lr"], f"epoch {epoch}"
        levels.append(schedule.factor(50))
    assert levels[0] == 1.0
    assert levels[-1] < 0.5


def test_a_plateau_counts_unvalidated_epochs_and_the_other_direction() -> None:
    schedule = schedule_of(100, name="plateau", warmup_steps=4, factor=0.1, patience_epochs=4)
    schedule.observe(0.5, 2, minimize=False)
    schedule.observe(0.6, 4, minimize=False)  # better: more is better
    schedule.observe(0.55, 6, minimize=False)
    assert schedule.factor(99) == 1.0
    schedule.observe(0.55, 8, minimize=False)
    assert schedule.factor(99) == pytest.approx(0.1)
    assert schedule.factor(1) == pytest.approx(0.1 * 2 / 4), "the warmup holds beside the level"
    again = schedule_of(100, name="plateau", warmup_steps=4, factor=0.1, patience_epochs=4)
    again.load_state_dict(schedule.state_dict())
    assert again.state_dict() == schedule.state_dict()
    assert again.factor(50) == schedule.factor(50)


def test_the_plan_is_data_and_a_picture(tmp_path: Path) -> None:
    section = schedule_of(10, name="linear", warmup_steps=2).section
    points = planned_schedule(section, 10, 0.5)
    assert [step for step, _ in points] == list(range(1, 11))
    assert points[0][1] == pytest.approx(0.25)
    assert points[1][1] == points[2][1] == 0.5
    assert points[-1][1] == 0.0
    thin = planned_schedule(section, 100_000, 0.5, max_points=50)
    assert (len(thin), thin[0][0], thin[-1][0]) == (50, 1, 100_000)
    picture = plot_schedule(points, tmp_path / "plan.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
