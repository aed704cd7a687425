"""The exponential schedule: the rate falls by one factor per step, as torch's ExponentialLR does, to a known end."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.trainer.optimization.schedules.schedule import Schedule, ScheduleSection


class Exponential(ScheduleSection):
    """A geometric fall from the peak to `final_fraction` of it."""

    name: Literal["exponential"] = "exponential"
    final_fraction: Annotated[float, Field(gt=0.0, le=1.0)] = 0.01
    """Learning rate at the last step as a share of the peak."""

    def shape(self, run: Schedule, step: int) -> float:
        """Return `final_fraction` to the power of the share of steps that lies behind."""
        return float(self.final_fraction ** run.progress(step))
