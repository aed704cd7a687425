"""Pictures of a study's values: over its trials, over their epochs, and beside its further objectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import is_drawable, label, new_figure
from trainwright.tools.hyperparameter_tuner.analysis.marks import (
    BEST,
    MARKS,
    mark,
    mark_best,
    value_axis,
    value_text,
)
from trainwright.tools.hyperparameter_tuner.analysis.subject import STATES
from trainwright.tools.hyperparameter_tuner.start_points import ORIGIN, PRESENT
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, RUNNING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject
    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord
    from trainwright.trainer.config.search import ObjectiveSection

STROKES = {COMPLETED: "-", PRUNED: "--", FAILED: ":", RUNNING: "-."}
WIDE_RATIO = 30
"""Between the ends of an objective from which on its axis is logarithmic."""


def history(subject: Subject) -> tuple[Figure, str, str]:
    """Draw each trial's value and the best so far; a pruned trial stands at its best epoch before it was pruned."""
    from matplotlib.ticker import MaxNLocator

    figure, [[axes]] = new_figure(1, 1, 4.4)
    for state in STATES:
        found = [(one.number, value) for one in subject.of(state) if (value := subject.value(one)) is not None]
        mark(axes, state, found, state if state == COMPLETED else f"{state}, at its best epoch")
    so_far = [(one.number, best.value) for one, best in zip(subject.trials, subject.best_so_far, strict=True) if best]
    if so_far:
        within = " within the bounds" if any(one.bounds for one in subject.search.objectives) else ""
        places, values = zip(*so_far, strict=True)
        axes.step(places, values, where="post", color=BEST, linewidth=1.5, label=f"best so far{within}", zorder=2)
    if subject.best is not None and subject.best.value is not None:
        mark_best(axes, subject, subject.best.number, subject.best.value)
    label(axes, "", "trial", "")
    value_axis(axes, subject, [subject.value(one) for one in subject.trials])
    without = [(one.number, 0.02) for one in subject.of(FAILED) if subject.value(one) is None]
    low_down: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False}
    mark(axes, FAILED, without, "failed without a value (at the bottom)", **low_down)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    axes.set_xlim(-0.5, max(len(subject.trials) - 0.5, 0.5))
    best = subject.best
    said = "no trial has completed" if best is None else f"best {best.value:.6g} at trial {best.number}"
    return figure, f"History of {subject.title}", f"{subject.counts}; {said}"


def intermediate(subject: Subject) -> tuple[Figure, str, str]:
    """Draw every trial's values by epoch; a mark ends those that were pruned or failed."""
    figure, [[axes]] = new_figure(1, 1, 4.6)
    shade = 0.85 if len(subject.trials) <= 15 else 0.55
    for state, stroke in reversed(STROKES.items()):
        curves = [points for one in subject.of(state) if (points := _points(one))]
        text, is_cut = f"{state} ({len(curves)})", state in {PRUNED, FAILED}
        style: dict[str, Any] = {"color": MARKS[state]["color"], "linestyle": stroke, "linewidth": 1.1, "alpha": shade}
        for place, points in enumerate(curves):
            named = {"label": text} if place == 0 and not is_cut else {}
            axes.plot(*zip(*points, strict=True), marker="." if len(points) == 1 else "", **style, **named)
        mark(axes, state, [points[-1] for points in curves if is_cut], text, zorder=4)
    if subject.best is not None and (points := _points(subject.best)):
        epochs, values = zip(*points, strict=True)
        axes.plot(epochs, values, color=BEST, linewidth=2.2, label=f"best: trial {subject.best.number}", zorder=5)
    label(axes, "", "epoch", "")
    value_axis(axes, subject, [value for one in subject.trials for _, value in _points(one)])
    pruned = [max(one.intermediate) for one in subject.of(PRUNED) if one.intermediate]
    stopped = f"; pruned at epochs {min(pruned)} to {max(pruned)}" if pruned else ""
    return figure, f"Trials of {subject.title} by epoch", subject.counts + stopped


def _points(trial: TrialRecord) -> list[tuple[float, float]]:
    return [(epoch, value) for epoch, value in sorted(trial.intermediate.items()) if is_drawable(value)]


def pareto(subject: Subject) -> tuple[Figure, str, str]:
    """Draw all completed trials, those of the front joined, the bounds, the best and the present configuration."""
    objectives = subject.search.objectives
    figure, panels = new_figure(1, len(objectives), 4.4)
    for axes, objective in zip(panels[0], objectives, strict=True):
        _objective(axes, subject, objective)
    best = f"best within the bounds: trial {subject.best.number}" if subject.best else "none keeps the bounds"
    said = f"{len(subject.front)} of {len(subject.completed)} completed trials are on the front; {best}"
    return figure, f"Pareto front of {subject.title}", said


def _objective(axes: Axes, subject: Subject, objective: ObjectiveSection) -> None:
    """Draw the goal's metric over one further objective."""
    points = {
        one.number: (one.further[objective.metric], one.value or 0.0)
        for one in subject.completed
        if objective.metric in one.further
    }
    front = {one.number for one in subject.front} & points.keys()
    others = [point for number, point in points.items() if number not in front]
    mark(axes, COMPLETED, others, "dominated", markerfacecolor="none")
    joined = "-" if len(subject.search.objectives) == 1 else "none"  # a projection of more dimensions is no curve
    line = sorted(points[number] for number in front)
    mark(axes, COMPLETED, line, "Pareto front", linestyle=joined, linewidth=1.2, zorder=4)
    present = [one.number for one in subject.completed if one.attributes.get(ORIGIN) == PRESENT]
    style: dict[str, Any] = {**MARKS[COMPLETED], "marker": "D", "color": "black", "zorder": 5}
    mark(axes, COMPLETED, [points[one] for one in present if one in points], "present (trial 0)", **style)
    if subject.best is not None and subject.best.number in points:
        mark_best(axes, subject, *points[subject.best.number])
    for end in (objective.at_least, objective.at_most):
        if end is not None:
            axes.axvline(end, color="black", linestyle=":", linewidth=1.2, label=objective.bounds)
    better = "higher" if objective.direction == "maximize" else "lower"
    label(axes, "", f"{objective.metric.replace('_', ' ')} ({better} is better)", value_text(subject))
    sizes = [x for x, _ in points.values()]
    if min(sizes, default=0) > 0 and max(sizes) / min(sizes) > WIDE_RATIO:
        axes.set_xscale("log")
