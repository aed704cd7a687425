"""Pareto front of a study: the goal's metric over each further objective, one panel each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.figures.style import figure_legend, label, new_figure, save
from trainwright.tools.hyperparameter_tuner.analysis.marks import BEST_MARK, MARKS, mark, value_text
from trainwright.tools.hyperparameter_tuner.start_points import ORIGIN, PRESENT
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject
    from trainwright.trainer.config.search import ObjectiveSection

WIDE_RATIO = 30
"""Between the ends of an objective from which on its axis is logarithmic."""


def pareto(subject: Subject, path: Path) -> tuple[Path, str]:
    """Draw all completed trials, those of the front joined, the bounds, the best and the present configuration."""
    objectives = subject.search.objectives
    figure, panels = new_figure(1, len(objectives), 4.4)
    for axes, objective in zip(panels[0], objectives, strict=True):
        _panel(axes, subject, objective)
    figure_legend(figure, list(panels[0]))
    best = f"best within the bounds: trial {subject.best.number}" if subject.best else "none keeps the bounds"
    said = f"{len(subject.front)} of {len(subject.completed)} completed trials are on the front; {best}"
    return save(figure, f"Pareto front of {subject.title}", path), said


def _panel(axes: Axes, subject: Subject, objective: ObjectiveSection) -> None:
    points = {
        trial.number: (trial.further[objective.metric], trial.value)
        for trial in subject.completed
        if objective.metric in trial.further and trial.value is not None
    }
    on_front = [trial.number for trial in subject.front if trial.number in points]
    others = [point for number, point in points.items() if number not in on_front]
    mark(axes, COMPLETED, [x for x, _ in others], [y for _, y in others], "dominated", markerfacecolor="none")
    line = sorted(points[number] for number in on_front)
    is_curve = len(subject.search.objectives) == 1  # a projection of a front in more dimensions is none
    style = MARKS[COMPLETED] | {"linestyle": "-" if is_curve else "none", "linewidth": 1.2, "zorder": 4}
    axes.plot([x for x, _ in line], [y for _, y in line], label="Pareto front", **style)
    _named(axes, subject, points)
    for end in (objective.at_least, objective.at_most):
        if end is not None:
            axes.axvline(end, color="black", linestyle=":", linewidth=1.2, label=objective.bounds)
    better = "higher" if objective.direction == "maximize" else "lower"
    text = f"{objective.metric.replace('_', ' ')} ({better} is better)"
    label(axes, "", text, value_text(subject), log=False, legend=False)
    low, high = min(x for x, _ in points.values()), max(x for x, _ in points.values())
    if low > 0 and high / low > WIDE_RATIO:
        axes.set_xscale("log")


def _named(axes: Axes, subject: Subject, points: dict[int, tuple[float, float]]) -> None:
    """Mark the best trial, and that of the present configuration."""
    for trial in subject.completed:
        if trial.attributes.get(ORIGIN) == PRESENT and trial.number in points:
            x, y = points[trial.number]
            axes.plot([x], [y], "D", color="black", markersize=6, zorder=5, linestyle="none", label="present (trial 0)")
    best = subject.best
    if best is not None and best.number in points:
        x, y = points[best.number]
        axes.plot([x], [y], label=f"best: trial {best.number}", **BEST_MARK)
