"""Schedules: closed forms, whose factor follows from the options and the steps alone, and the plateau, with a state.

Constant, linear, polynomial and plateau are forms of torch's; the others name their papers where they are computed.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.section import (
    Fraction,
    ImpossibleError,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Probability,
)
from trainwright.trainer.optimization.schedules.schedule import Schedule, ScheduleSection, falling, half_cosine


class Constant(ScheduleSection):
    """The full rate after the warmup."""

    name: Literal["constant"] = "constant"

    def shape(self, run: Schedule, step: int) -> float:  # noqa: ARG002 - the form of all schedules
        """Return 1."""
        return 1.0


class Cosine(ScheduleSection):
    """Half a cosine down to the last step."""

    name: Literal["cosine"] = "cosine"
    final_fraction: Fraction = 0.0
    """Learning rate at the end as a share of the peak."""

    def shape(self, run: Schedule, step: int) -> float:
        """Return half a cosine from 1 to `final_fraction`."""
        return falling(self.final_fraction, half_cosine(run.progress(step)))


class Linear(ScheduleSection):
    """A straight line down to the last step."""

    name: Literal["linear"] = "linear"
    final_fraction: Fraction = 0.0

    def shape(self, run: Schedule, step: int) -> float:
        """Return a straight line from 1 to `final_fraction`."""
        return falling(self.final_fraction, 1.0 - run.progress(step))


class Polynomial(ScheduleSection):
    """A power of the share of steps that is left."""

    name: Literal["polynomial"] = "polynomial"
    final_fraction: Fraction = 0.0
    power: PositiveFloat = 2.0

    def shape(self, run: Schedule, step: int) -> float:
        """Return `final_fraction` + the share of steps left to the power of `power`."""
        return falling(self.final_fraction, (1.0 - run.progress(step)) ** self.power)


class InverseSquareRoot(ScheduleSection):
    """Falls with the square root of the step, from the end of the warmup."""

    name: Literal["inverse_square_root"] = "inverse_square_root"

    def shape(self, run: Schedule, step: int) -> float:
        """Return the square root of (warmup steps / number of the step): Vaswani et al. 2017, arXiv:1706.03762."""
        return math.sqrt(max(run.warmup_steps, 1) / (step + 1))


class WarmupStableDecay(ScheduleSection):
    """The full rate until the last share of the steps, in which it falls."""

    name: Literal["warmup_stable_decay"] = "warmup_stable_decay"
    final_fraction: Fraction = 0.0
    decay_fraction: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    """Share of all steps in which the rate falls, at the end."""
    decay_shape: Literal["linear", "cosine", "one_minus_sqrt"] = "linear"

    def shape(self, run: Schedule, step: int) -> float:
        """Return 1, and in the last share of all steps the decay (Hu et al. 2024, arXiv:2404.06395).

        Its form 1 - sqrt: Hägele et al. 2024, arXiv:2405.18392.
        """
        last = run.total_steps - 1
        start = max(last - math.ceil(self.decay_fraction * run.total_steps), run.warmup_steps)
        progress = min(max((step - start) / max(last - start, 1), 0.0), 1.0)
        left = {
            "linear": 1.0 - progress,
            "cosine": half_cosine(progress),
            "one_minus_sqrt": 1.0 - math.sqrt(progress),
        }[self.decay_shape]
        return falling(self.final_fraction, left)


class OneCycle(ScheduleSection):
    """Up along half a cosine and far down along another, the momentum the other way."""

    name: Literal["one_cycle"] = "one_cycle"
    warmup_fraction: Probability = 0.3
    initial_fraction: Fraction = 0.04
    """Rate of the first step as a share of the peak."""
    final_fraction: Fraction = 4e-6
    momentum_range: Annotated[tuple[Probability, Probability], Field(strict=False)] | None = None
    """(lowest, highest) momentum or beta1: highest where the rate is lowest. Left out: the optimizer's, fixed."""

    @model_validator(mode="after")
    def _range_in_order(self) -> Self:
        if self.momentum_range is not None and self.momentum_range[0] > self.momentum_range[1]:
            in_order = sorted(self.momentum_range)
            raise ImpossibleError("schedule.momentum_range is (lowest, highest)", {"schedule.momentum_range": in_order})
        return self

    @property
    def moves_momentum(self) -> bool:
        """Whether a range is given."""
        return self.momentum_range is not None

    def factor_at(self, run: Schedule, step: int) -> float:
        """Return the cycle of the rate: its warmup is the first half."""
        return _cycle(run, self.initial_fraction, 1.0, self.final_fraction, step)

    def momentum_at(self, run: Schedule, step: int) -> float | None:
        """Return the cycle of the momentum, from its highest value to its lowest and back."""
        if self.momentum_range is None:
            return None
        lowest, highest = self.momentum_range
        return _cycle(run, highest, lowest, highest, step)


def _cycle(run: Schedule, initial: float, peak: float, final: float, step: int) -> float:
    """Return half a cosine from `initial` to `peak` at the last warmup step, another to `final` at the last step.

    Smith and Topin 2018, arXiv:1708.07120; two half cosines as in torch's OneCycleLR.
    """
    top = max(run.warmup_steps - 1, 0)
    if step < top:
        return peak + (initial - peak) * half_cosine(step / top)
    progress = min((step - top) / max(run.total_steps - 1 - top, 1), 1.0)
    return final + (peak - final) * half_cosine(progress)


class CosineRestarts(ScheduleSection):
    """Several half cosines, each from the full rate down."""

    name: Literal["cosine_restarts"] = "cosine_restarts"
    final_fraction: Fraction = 0.0
    cycles: Annotated[int, Field(ge=1, le=10_000)] = 3
    """Cosines after the warmup; together they fill the run."""
    cycle_growth: Annotated[float, Field(ge=1.0, le=1000.0)] = 1.0
    """How much longer each cycle is than the one before."""

    def shape(self, run: Schedule, step: int) -> float:
        """Return the cosine of the cycle that the step falls into (SGDR); each cycle begins at 1.

        The cycles fill the steps after the warmup, each `cycle_growth` times as long as the one before; their borders
        are rounded to integer steps.
        """
        span = max(run.total_steps - run.warmup_steps, 1)
        lengths = [self.cycle_growth**number for number in range(self.cycles)]
        ends = [round(span * sum(lengths[: number + 1]) / sum(lengths)) for number in range(self.cycles)]
        place = min(step - run.warmup_steps, span - 1)
        number = next(number for number, end in enumerate(ends) if place < end)
        start = ends[number - 1] if number else 0
        return falling(self.final_fraction, half_cosine((place - start) / (ends[number] - start)))


class Plateau(ScheduleSection):
    """Lowered whenever the selection metric has stopped improving."""

    name: Literal["plateau"] = "plateau"
    factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.1
    patience_epochs: PositiveInt = 3
    """Epochs without improvement before the rate is lowered."""
    cooldown_epochs: NonNegativeInt = 0
    """Epochs after a lowering that do not count."""
    min_delta: NonNegativeFloat = 0.0
    """Smallest change of the selection metric that counts as an improvement."""
    final_fraction: Fraction = 0.0
    """The rate is never lowered below this share of the peak."""

    def build(self, total_steps: int) -> Schedule:
        """Return the schedule of a run, at the full rate."""
        return Lowered(self, total_steps, self.settled_warmup(total_steps), self)


@dataclass
class PlateauState:
    """State that the next lowering depends on; all of it is checkpointed."""

    level: float = 1.0
    """Factor after the warmup."""
    best: float | None = None
    """The least value so far (of the negated metric, where more is better)."""
    waited_epochs: int = 0
    """Epochs without improvement."""
    cooldown_until: int = 0
    """Epochs up to this one do not count."""
    judged_epoch: int = 0


@dataclass
class Lowered(Schedule):
    """Constant after the warmup, and lowered by `factor` after `patience_epochs` epochs without improvement."""

    plateau: Plateau
    state: PlateauState = field(default_factory=PlateauState)

    def factor(self, step: int) -> float:
        """Return the warmup's factor times the present level: for steps to come, as if nothing more stalled."""
        warmup = (step + 1) / self.warmup_steps if step < self.warmup_steps else 1.0
        return warmup * self.state.level

    def observe(self, value: float, epoch: int, *, minimize: bool) -> None:
        """Count the epoch (from 1) by its selection metric, and lower the level where patience is over.

        A value that is not finite counts as no improvement. Epochs that were not validated count with the next that
        is.
        """
        options, state = self.plateau, self.state
        cost = value if minimize else -value
        if math.isfinite(cost) and (state.best is None or cost < state.best - options.min_delta):
            state.best, state.waited_epochs = cost, 0
        else:
            state.waited_epochs += max(epoch - max(state.judged_epoch, state.cooldown_until), 0)
        state.judged_epoch = epoch
        if state.waited_epochs >= options.patience_epochs:
            state.level = max(state.level * options.factor, options.final_fraction)
            state.waited_epochs, state.cooldown_until = 0, epoch + options.cooldown_epochs

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return asdict(self.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a saved state."""
        self.state = PlateauState(**state)


# The exponential schedule: the rate falls by one factor per step, as torch's ExponentialLR does, to a known end.


class Exponential(ScheduleSection):
    """A geometric fall from the peak to `final_fraction` of it."""

    name: Literal["exponential"] = "exponential"
    final_fraction: Annotated[float, Field(gt=0.0, le=1.0)] = 0.01
    """Learning rate at the last step as a share of the peak."""

    def shape(self, run: Schedule, step: int) -> float:
        """Return `final_fraction` to the power of the share of steps that lies behind."""
        return float(self.final_fraction ** run.progress(step))
