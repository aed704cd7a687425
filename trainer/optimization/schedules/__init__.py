"""Schedules of the learning rate by name: each has its options and its form in one class, and a line here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.trainer.base.section import form_of, union_of
from trainwright.trainer.optimization.schedules.forms import (
    Constant,
    Cosine,
    CosineRestarts,
    Exponential,
    InverseSquareRoot,
    Linear,
    OneCycle,
    Plateau,
    Polynomial,
    WarmupStableDecay,
)
from trainwright.trainer.optimization.schedules.schedule import ScheduleSection

FORMS: tuple[type[ScheduleSection], ...] = (
    Cosine,
    Constant,
    Linear,
    Polynomial,
    Exponential,
    InverseSquareRoot,
    WarmupStableDecay,
    OneCycle,
    CosineRestarts,
    Plateau,
)
SCHEDULES = {form_of(form): form for form in FORMS}
DEFAULT_SCHEDULE = "cosine"

if TYPE_CHECKING:
    AnySchedule = ScheduleSection
else:
    AnySchedule = union_of(FORMS, DEFAULT_SCHEDULE)
"""The learning rate over the run, chosen by `name`."""


def planned_schedule(
    section: ScheduleSection, total_steps: int, learning_rate: float, max_points: int = 1000
) -> list[tuple[int, float]]:
    """Return (number of the step from 1, learning rate) over the run, first and last step included.

    Of a plateau's rate, that of a run which never stalls. Longer runs than `max_points` are thinned out evenly.
    """
    schedule = section.build(total_steps)
    count = min(total_steps, max_points)
    steps = sorted({round(place * (total_steps - 1) / max(count - 1, 1)) for place in range(count)})
    return [(step + 1, learning_rate * schedule.factor(step)) for step in steps]


def plot_schedule(points: list[tuple[int, float]], path: Path) -> Path:
    """Draw a planned schedule into a file whose suffix names the format (png, svg, pdf); return its path."""
    from matplotlib.figure import Figure  # without pyplot: no global state, no display

    figure = Figure(figsize=(7.0, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot([step for step, _ in points], [rate for _, rate in points])
    axes.set(title="Planned learning rate", xlabel="optimizer step", ylabel="learning rate", ylim=(0, None))
    axes.grid(visible=True, alpha=0.3)
    figure.savefig(path)
    return path
