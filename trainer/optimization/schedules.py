"""Schedules of the learning rate: closed forms, a plateau, the constant rate of SWA, and the planned one as data.

Steps count from 0. The warmup rises as (step + 1) / warmup_steps; what falls reaches its end at the last step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trainwright.trainer.optimization.schedule_sections import (
    CosineRestartsSection,
    OneCycleSection,
    PlateauSection,
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
    from trainwright.trainer.optimization.schedules import Plateau

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


@dataclass
class PlateauState:
    """What the next lowering depends on; checkpointed whole."""

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
class Plateau(Schedule):
    """Constant after the warmup, and lowered by `factor` after `patience_epochs` epochs without improvement."""

    state: PlateauState = field(default_factory=PlateauState)

    def factor(self, step: int) -> float:
        """Return the warmup's factor times the present level: for steps to come, as if nothing more stalled."""
        warmup = (step + 1) / self.warmup_steps if step < self.warmup_steps else 1.0
        return warmup * self.state.level

    def judge(self, value: float, epoch: int, *, minimize: bool) -> None:
        """Count the epoch (from 1) by its selection metric, and lower the level where patience is over.

        A value that is not finite counts as no improvement. Epochs that were not validated count with the next that
        is.
        """
        section, state = self.section, self.state
        assert isinstance(section, PlateauSection)  # noqa: S101 - chosen in build_schedule
        cost = value if minimize else -value
        if math.isfinite(cost) and (state.best is None or cost < state.best - section.min_delta):
            state.best, state.waited_epochs = cost, 0
        else:
            state.waited_epochs += max(epoch - max(state.judged_epoch, state.cooldown_until), 0)
        state.judged_epoch = epoch
        if state.waited_epochs >= section.patience_epochs:
            state.level = max(state.level * section.factor, section.final_fraction)
            state.waited_epochs, state.cooldown_until = 0, epoch + section.cooldown_epochs

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return asdict(self.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a saved state."""
        self.state = PlateauState(**state)


@dataclass
class SwaRate(Schedule):
    """A schedule that goes over to a constant rate, along half a cosine as torch's SWALR does."""

    before: Schedule
    start_step: int
    anneal_steps: int
    level: float
    """The constant rate as a share of the peak."""

    def factor(self, step: int) -> float:
        """Return the factor for the update number `step` (from 0)."""
        if step < self.start_step:
            return self.before.factor(step)
        progress = min((step - self.start_step + 1) / max(self.anneal_steps, 1), 1.0)
        origin = self.before.factor(max(self.start_step - 1, 0))
        return self.level + (origin - self.level) * half_cosine(progress)

    def momentum(self, step: int) -> float | None:
        """Return the momentum of the update number `step`: that of the schedule."""
        return self.before.momentum(step)

    def judge(self, value: float, epoch: int, *, minimize: bool) -> None:
        """Hand the selection metric on."""
        self.before.judge(value, epoch, minimize=minimize)

    def state_dict(self) -> dict[str, Any]:
        """Return the schedule's state."""
        return self.before.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up the schedule's state."""
        self.before.load_state_dict(state)


def planned_schedule(
    section: ScheduleSection, total_steps: int, learning_rate: float, max_points: int = 1000
) -> list[tuple[int, float]]:
    """Return (number of the step from 1, learning rate) over the run, first and last step included.

    Of a plateau's rate, that of a run which never stalls. Longer runs than `max_points` are thinned out evenly.
    """
    schedule = build_schedule(section, total_steps)
    count = min(total_steps, max_points)
    steps = sorted({round(place * (total_steps - 1) / max(count - 1, 1)) for place in range(count)})
    return [(step + 1, learning_rate * schedule.factor(step)) for step in steps]


def plot_schedule(points: list[tuple[int, float]], path: Path, title: str = "Planned learning rate") -> Path:
    """Draw a planned schedule into a file whose suffix names the format (png, svg, pdf); return its path."""
    from matplotlib.figure import Figure  # without pyplot: no global state, no display

    figure = Figure(figsize=(7.0, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot([step for step, _ in points], [rate for _, rate in points])
    axes.set(title=title, xlabel="optimizer step", ylabel="learning rate", ylim=(0, None))
    axes.grid(visible=True, alpha=0.3)
    figure.savefig(path)
    return path
