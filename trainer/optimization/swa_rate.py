"""The learning rate under SWA: the schedule's own until averaging begins, then a constant one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainwright.trainer.optimization.schedules import Schedule, half_cosine


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
