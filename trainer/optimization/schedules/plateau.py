"""Plateau: a rate that is lowered whenever the selection metric has stopped improving, so it has a state."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from trainwright.trainer.base.section import Fraction, NonNegativeFloat, NonNegativeInt, PositiveInt
from trainwright.trainer.optimization.schedules.schedule import Schedule, ScheduleSection


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
class Lowered(Schedule):
    """Constant after the warmup, and lowered by `factor` after `patience_epochs` epochs without improvement."""

    plateau: Plateau
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
