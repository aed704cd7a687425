"""The learning-rate range test: how the loss answers to a rate that rises from far too low to far too high.

Smith 2017, "Cyclical Learning Rates for Training Neural Networks", arXiv:1506.01186. The suggestion is the rate at the
smoothed loss's minimum divided by ten; "the steepest descent" proved unreliable where we measured both.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from trainwright.trainer.errors import DivergenceError
from trainwright.trainer.optimization.schedules import Schedule
from trainwright.trainer.probing.profile import endless
from trainwright.trainer.session import Session
from trainwright.trainer.stepping import take_step

LOWEST, HIGHEST = 1e-7, 10.0
SMOOTHING = 0.9
DIVERGED = 4.0
"""Times the smallest smoothed loss, at which the sweep ends."""


class Sweep(Schedule):
    """A schedule under which the highest rate rises exponentially over the steps."""

    def __init__(self, like: Schedule, peak: float, steps: int) -> None:
        super().__init__(like.section, steps, 0)
        self.peak = peak

    def rate(self, step: int) -> float:
        """Return the highest group's rate at a step (from 0)."""
        return LOWEST * math.pow(HIGHEST / LOWEST, step / max(self.total_steps - 1, 1))

    def factor(self, step: int) -> float:
        """Return the factor on the peak rate."""
        return self.rate(step) / self.peak

    def momentum(self, step: int) -> None:
        """Leave the momentum alone."""


def sweep(session: Session, steps: int) -> dict[str, Any]:
    """Train over the range, a step for each rate; return the curve, why it ended, and the suggested rate."""
    peak = max(rate for rates in session.base_rates.values() for rate in rates)
    schedule = Sweep(session.schedule, peak, steps)
    session.schedule = schedule
    points: list[tuple[float, float, float]] = []
    ended, mean, smallest = "the whole range was swept", 0.0, math.inf
    try:
        for number, group in enumerate(endless(session, steps)):
            loss = float(take_step(session, group).loss)
            mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
            smoothed = mean / (1 - SMOOTHING ** (number + 1))
            points.append((schedule.rate(number), loss, smoothed))
            smallest = min(smallest, smoothed)
            if smoothed > DIVERGED * smallest + 1e-12:
                ended = "the loss diverged"
                break
    except DivergenceError:
        ended = "the loss was no number any more"
    return {"steps": len(points), "ended": ended, "points": points, **suggestion(points)}


def suggestion(points: list[tuple[float, float, float]]) -> dict[str, Any]:
    """Return the rate at the minimum divided by ten, or why there is none.

    A loss that never fell says nothing of rates: (first - smallest) must be 2 % of the first at least.
    """
    if len(points) < 10:
        return {"suggested": None, "why": f"only {len(points)} steps before it diverged"}
    rate, _, smallest = min(points, key=lambda point: point[2])
    first = points[0][2]
    if not first - smallest > 0.02 * abs(first):
        return {"suggested": None, "why": "the loss did not fall at any rate: look at the data and the model first"}
    return {"suggested": float(f"{rate / 10:.2g}"), "at_minimum": rate, "why": "a tenth of the rate at the minimum"}


def plot(found: dict[str, Any], path: Path, present: float) -> Path:
    """Draw the curve with the suggestion into a PNG."""
    from matplotlib.figure import Figure  # without pyplot: no global state, no display

    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.subplots()
    rates, losses, smoothed = zip(*found["points"], strict=True)
    axes.plot(rates, losses, color="#56B4E9", alpha=0.5, linewidth=1.0, label="loss of a step")
    axes.plot(rates, smoothed, color="#0072B2", label="smoothed")
    axes.axvline(present, color="#666666", linestyle=":", label=f"configured {present:g}")
    if found["suggested"] is not None:
        axes.axvline(found["suggested"], color="#D55E00", label=f"suggested {found['suggested']:g}")
    low, high = min(smoothed), max(smoothed[0], losses[0])
    room = max(0.5 * (high - low), 1e-6)
    axes.set(xscale="log", ylim=(low - room, high + room), xlabel="learning rate", ylabel="training loss")
    axes.set_title("Learning-rate range test")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path)
    return path
