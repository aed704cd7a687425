"""Base classes of the schedules: the options that all take, and the factor on the learning rate over one run.

Steps count from 0. The warmup rises as (step + 1) / warmup_steps; a decay reaches its end at the last step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from trainwright.trainer.base.section import NonNegativeInt, Probability, Section


class ScheduleSection(Section):
    """A schedule's options, and its form after the warmup."""

    warmup_fraction: Probability = 0.05
    """Share of all steps in which the rate rises linearly from near zero."""
    warmup_steps: NonNegativeInt | None = None
    """Exact number of warmup steps; replaces warmup_fraction."""
    name: str

    @property
    def moves_momentum(self) -> bool:
        """Whether it sets the optimizer's momentum (or beta1) too."""
        return False

    def build(self, total_steps: int) -> Schedule:
        """Return the schedule of a run, its warmup settled in steps."""
        return Schedule(self, total_steps, self.settled_warmup(total_steps))

    def settled_warmup(self, total_steps: int) -> int:
        """Return the steps of the warmup; the last step is never among them."""
        share = math.ceil(self.warmup_fraction * total_steps)
        warmup = self.warmup_steps if self.warmup_steps is not None else share
        return min(warmup, max(total_steps - 1, 0))

    def factor_at(self, run: Schedule, step: int) -> float:
        """Return the factor on the peak rate for the update number `step` (from 0)."""
        return (step + 1) / run.warmup_steps if step < run.warmup_steps else self.shape(run, step)

    def shape(self, run: Schedule, step: int) -> float:
        """Return the factor of a step after the warmup."""
        raise NotImplementedError

    def momentum_at(self, run: Schedule, step: int) -> float | None:  # noqa: ARG002 - the form of all schedules
        """Return the momentum (or beta1) of the update number `step`; None: the optimizer's."""
        return None


@dataclass
class Schedule:
    """Factor on the peak learning rate by optimizer step."""

    section: ScheduleSection
    total_steps: int
    warmup_steps: int

    def factor(self, step: int) -> float:
        """Return the factor for the update number `step` (from 0)."""
        return self.section.factor_at(self, step)

    def momentum(self, step: int) -> float | None:
        """Return the momentum (or beta1) of the update number `step`; None: the optimizer's."""
        return self.section.momentum_at(self, step)

    def progress(self, step: int) -> float:
        """Return the done share of the steps after the warmup: 0 at its end, 1 at the last step."""
        span = max(self.total_steps - 1 - self.warmup_steps, 1)
        return min((step - self.warmup_steps) / span, 1.0)

    def observe(self, value: float, epoch: int, *, minimize: bool) -> None:
        """Take notice of the selection metric after an epoch. Only the plateau does."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state."""


def falling(final: float, share: float) -> float:
    """Return the value on a line from 1 to `final`; `share` is the remaining part of the way (1 at its start)."""
    return final + (1.0 - final) * share


def half_cosine(progress: float) -> float:
    """Return half a cosine from 1 to 0 as `progress` goes from 0 to 1 (SGDR: Loshchilov, Hutter, arXiv:1608.03983)."""
    return 0.5 * (1.0 + math.cos(math.pi * progress))


@dataclass
class SwaRate(Schedule):
    """A schedule that changes to a constant rate, along half a cosine as torch's SWALR does."""

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

    def observe(self, value: float, epoch: int, *, minimize: bool) -> None:
        """Hand the selection metric on."""
        self.before.observe(value, epoch, minimize=minimize)

    def state_dict(self) -> dict[str, Any]:
        """Return the schedule's state."""
        return self.before.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from the schedule's state."""
        self.before.load_state_dict(state)
