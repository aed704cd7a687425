"""Learning rates as closed forms of the step, so that a schedule has no state to lose (plateau.py alone has some).

Steps count from 0. The warmup rises as (step + 1) / warmup_steps; what falls reaches its end at the last step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainwright.trainer.config.schedules import (
    CosineRestartsSection,
    OneCycleSection,
    PolynomialSection,
    ScheduleSection,
    WarmupStableDecaySection,
)


@dataclass
class Schedule:
    """Factor on the peak learning rate by optimizer step."""

    section: ScheduleSection
    total_steps: int
    warmup_steps: int

    def factor(self, step: int) -> float:
        """Return the factor for the update number `step` (from 0)."""
        section = self.section
        if isinstance(section, OneCycleSection):
            return one_cycle(self, section.initial_fraction, 1.0, section.final_fraction, step)
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        return SHAPES[section.name](self, section, step)

    def momentum(self, step: int) -> float | None:
        """Return the momentum (or beta1) of the update number `step`; None: the optimizer's own."""
        if not isinstance(self.section, OneCycleSection) or self.section.momentum_range is None:
            return None
        lowest, highest = self.section.momentum_range
        return one_cycle(self, highest, lowest, highest, step)

    def progress(self, step: int) -> float:
        """Return the share of the steps after the warmup that lies behind: 0 at its end, 1 at the last step."""
        span = max(self.total_steps - 1 - self.warmup_steps, 1)
        return min((step - self.warmup_steps) / span, 1.0)

    def judge(self, value: float, epoch: int, *, minimize: bool) -> None:
        """Take notice of the selection metric after an epoch. Only the plateau does."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what a checkpoint kept."""


def build_schedule(section: ScheduleSection, total_steps: int) -> Schedule:
    """Return the schedule of a run, its warmup settled in steps."""
    from trainwright.trainer.optimization.plateau import Plateau

    share = math.ceil(section.warmup_fraction * total_steps)
    warmup = section.warmup_steps if section.warmup_steps is not None else share
    form = Plateau if section.name == "plateau" else Schedule
    return form(section, total_steps, min(warmup, max(total_steps - 1, 0)))


def falling(final: float, share: float) -> float:
    """Return the value on a line from 1 to `final`; `share` is what is left of the way (1 at its start)."""
    return final + (1.0 - final) * share


def half_cosine(progress: float) -> float:
    """Return half a cosine from 1 to 0 as `progress` goes from 0 to 1 (SGDR: Loshchilov, Hutter, arXiv:1608.03983)."""
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def constant(schedule: Schedule, section: Any, step: int) -> float:  # noqa: ARG001 - the shapes' form
    """Return 1."""
    return 1.0


def cosine(schedule: Schedule, section: Any, step: int) -> float:
    """Return half a cosine from 1 to `final_fraction`."""
    return falling(section.final_fraction, half_cosine(schedule.progress(step)))


def linear(schedule: Schedule, section: Any, step: int) -> float:
    """Return a straight line from 1 to `final_fraction`."""
    return falling(section.final_fraction, 1.0 - schedule.progress(step))


def polynomial(schedule: Schedule, section: PolynomialSection, step: int) -> float:
    """Return `final_fraction` + the share of steps left to the power of `power`."""
    return falling(section.final_fraction, (1.0 - schedule.progress(step)) ** section.power)


def inverse_square_root(schedule: Schedule, section: Any, step: int) -> float:  # noqa: ARG001 - the shapes' form
    """Return the square root of (warmup steps / number of the step): Vaswani et al. 2017, arXiv:1706.03762."""
    return math.sqrt(max(schedule.warmup_steps, 1) / (step + 1))


def warmup_stable_decay(schedule: Schedule, section: WarmupStableDecaySection, step: int) -> float:
    """Return 1, and in the last share of all steps the decay (Hu et al. 2024, arXiv:2404.06395).

    Its form 1 - sqrt: Hägele et al. 2024, arXiv:2405.18392.
    """
    last = schedule.total_steps - 1
    start = max(last - math.ceil(section.decay_fraction * schedule.total_steps), schedule.warmup_steps)
    progress = min(max((step - start) / max(last - start, 1), 0.0), 1.0)
    left = {
        "linear": 1.0 - progress,
        "cosine": half_cosine(progress),
        "one_minus_sqrt": 1.0 - math.sqrt(progress),
    }[section.decay_shape]
    return falling(section.final_fraction, left)


def cosine_restarts(schedule: Schedule, section: CosineRestartsSection, step: int) -> float:
    """Return the cosine of the cycle that the step falls into (SGDR); each cycle begins at 1.

    The cycles fill the steps after the warmup, each `cycle_growth` times as long as the one before; their borders are
    rounded to whole steps.
    """
    span = max(schedule.total_steps - schedule.warmup_steps, 1)
    lengths = [section.cycle_growth**number for number in range(section.cycles)]
    ends = [round(span * sum(lengths[: number + 1]) / sum(lengths)) for number in range(section.cycles)]
    place = min(step - schedule.warmup_steps, span - 1)
    number = next(number for number, end in enumerate(ends) if place < end)
    start = ends[number - 1] if number else 0
    return falling(section.final_fraction, half_cosine((place - start) / (ends[number] - start)))


def one_cycle(schedule: Schedule, initial: float, peak: float, final: float, step: int) -> float:
    """Return half a cosine from `initial` to `peak` at the last warmup step, another to `final` at the last step.

    Smith and Topin 2018, arXiv:1708.07120; two half cosines as in torch's OneCycleLR.
    """
    top = max(schedule.warmup_steps - 1, 0)
    if step < top:
        return peak + (initial - peak) * half_cosine(step / top)
    progress = min((step - top) / max(schedule.total_steps - 1 - top, 1), 1.0)
    return final + (peak - final) * half_cosine(progress)


SHAPES: dict[str, Callable[[Schedule, Any, int], float]] = {
    "constant": constant,
    "cosine": cosine,
    "linear": linear,
    "polynomial": polynomial,
    "inverse_square_root": inverse_square_root,
    "warmup_stable_decay": warmup_stable_decay,
    "cosine_restarts": cosine_restarts,
}
"""What follows the warmup."""
