"""The one schedule with a state: lowered when the selection metric has stopped improving."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from trainwright.trainer.config.schedules import PlateauSection
from trainwright.trainer.optimization.schedules import Schedule


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
