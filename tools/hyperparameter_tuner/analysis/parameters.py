"""Pictures of a study's values over its parameters: one by one, two by two, and all at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import GREY, NORMAL, PAPER, SMALL, cut, label, new_figure, plain
from trainwright.tools.hyperparameter_tuner.analysis.marks import (
    BEST,
    MISSING,
    PLASTIC,
    by_value,
    mark,
    mark_best,
    scales_of,
    value_axis,
    value_text,
)
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trainwright.tools.hyperparameter_tuner.analysis.marks import Scale
    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject
    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord

MAX_SHOWN = 6
"""Parameters of a picture of all of them."""
COLUMNS = 3
LONGEST_NAME = 16
"""Characters of a line of a key below an axis of the parallel coordinates."""
ENOUGH_POINTS = 6
"""Trials below which a surface between them would be invented."""
LEVELS = 12
FLATTEST = 0.02
"""A triangle whose inner circle is smaller than this share of its outer one is left out: it spans far places."""


def slices(subject: Subject) -> tuple[Figure, str, str]:
    """Draw each trial's value over each parameter, at most six, one panel each."""
    shown = [one for one in subject.trials if subject.value(one) is not None]
    scales = scales_of(subject, MAX_SHOWN)
    columns = min(COLUMNS, len(scales))
    rows = math.ceil(len(scales) / columns)
    figure, panels = new_figure(rows, columns, 1.0 + 2.6 * rows, sharey=True)
    for axes, scale in zip(panels.flat, scales, strict=False):
        _slice(axes, scale, subject, [one for one in shown if scale.key in one.parameters], len(shown))
    for axes in panels.flat[len(scales) :]:
        axes.set_visible(False)
    for row in panels:
        value_axis(row[0], subject, [subject.value(one) for one in shown])
    return figure, f"Slices of {subject.title}{_of_all(subject)}", _said(subject, scales)


def _slice(axes: Axes, scale: Scale, subject: Subject, have: list[TrialRecord], count: int) -> None:
    points = {one.number: (scale.spread(one), subject.value(one) or 0.0) for one in have}
    for state in (PRUNED, FAILED, COMPLETED):
        mark(axes, state, [points[one.number] for one in have if one.state == state], state, alpha=0.8)
    if subject.best is not None and subject.best.number in points:
        mark_best(axes, subject, *points[subject.best.number])
    scale.draw_ticks(axes, 4)
    title = f"{count - len(have)} of {count} trials without it" if len(have) < count else ""
    label(axes, title, cut(scale.key, 30) + scale.note, "")


def contour(subject: Subject) -> tuple[Figure, str, str]:
    """Draw the completed trials over the two most important parameters, and the value between them."""
    figure, [[axes]] = new_figure(1, 1, 5.0)
    across, up = scales_of(subject, 2)
    have = [one for one in subject.trials if {across.key, up.key} <= one.parameters.keys()]
    points = {one.number: (across.spread(one), up.spread(one, PLASTIC)) for one in have}
    trials = [one for one in subject.completed if one.number in points]
    colours, (low, high) = by_value(axes, subject)
    values = {points[one.number]: min(max(one.value or 0.0, low), high) for one in trials}
    is_surface = not (across.is_categorical or up.is_categorical) and _surface(axes, values, colours)
    style: dict[str, Any] = {"s": 42, "edgecolors": "black", "linewidths": 0.7, "zorder": 3, "label": COMPLETED}
    axes.scatter(*zip(*values, strict=True), c=colours.to_rgba(list(values.values())), **style)
    mark(axes, PRUNED, [points[one.number] for one in have if one.state == PRUNED], PRUNED, alpha=0.7)
    if subject.best in trials:
        mark_best(axes, subject, *points[subject.best.number])
    label(axes, "", across.key + across.note, up.key + up.note)
    across.draw_ticks(axes)
    up.draw_ticks(axes, vertical=True)
    if is_surface:
        axes.grid(visible=False)
    found = subject.importance
    basis = "Two most important parameters" if found.ranked else "Two parameters, the first by name,"
    how = "the most important ones" if found.ranked else f"the first by name ({found.note})"
    said = f"{len(trials)} completed trials over {across.key} and {up.key}, {how}"
    return figure, f"{basis} of {subject.title}", said


def _surface(axes: Axes, values: dict[tuple[float, float], float], colours: Any) -> bool:
    """Draw the value between the trials, by triangles; return whether there are enough places for one."""
    from matplotlib.tri import TriAnalyzer, Triangulation

    if len(values) < ENOUGH_POINTS or len(set(values.values())) == 1:
        return False
    try:
        mesh = Triangulation(*zip(*values, strict=True))
    except RuntimeError:  # all on one line
        return False
    mesh.set_mask(TriAnalyzer(mesh).get_flat_tri_mask(FLATTEST))
    style: dict[str, Any] = {"norm": colours.norm, "levels": LEVELS}
    axes.tricontourf(mesh, list(values.values()), cmap=colours.get_cmap(), alpha=0.75, **style)
    axes.tricontour(mesh, list(values.values()), colors="white", linewidths=0.5, alpha=0.7, **style)
    return True


def parallel(subject: Subject) -> tuple[Figure, str, str]:
    """Draw the completed trials as lines through their parameters, coloured by value, the best one on top."""
    figure, [[axes]] = new_figure(1, 1, 4.8)
    scales = scales_of(subject, MAX_SHOWN)
    colours, (low, high) = by_value(axes, subject)
    better = 1 if subject.direction == "maximize" else -1
    for trial in sorted(subject.completed, key=lambda one: better * (one.value or 0.0)):  # the better ones on top
        value = min(max(trial.value or 0.0, low), high)
        places = [
            scale.place(trial.parameters[scale.key]) if scale.key in trial.parameters else MISSING for scale in scales
        ]
        style: dict[str, Any] = {"color": colours.to_rgba(value), "linewidth": 1.2, "alpha": 0.8}
        if trial == subject.best:
            text = f"best: trial {trial.number}, {trial.value:.5g}"
            style = {"color": BEST, "linewidth": 2.4, "zorder": 3, "label": text}
        line = [*places, (value - low) / (high - low) if high > low else 0.5]
        axes.plot(range(len(line)), line, marker="o", markersize=3, **style)
    shares = (0.0, 0.5, 1.0) if high > low else (0.5,)
    _upright(axes, subject, scales, [(share, f"{low + share * (high - low):.4g}") for share in shares])
    return figure, f"Completed trials of {subject.title}{_of_all(subject)}", _said(subject, scales)


def _upright(axes: Axes, subject: Subject, scales: list[Scale], of_values: list[tuple[float, str]]) -> None:
    """Draw an upright line with its ticks for each parameter and for the value, named below it."""
    lacks = [any(scale.key not in one.parameters for one in subject.completed) for scale in scales]
    lacking = [[(MISSING, "not set")] if missing else [] for missing in lacks]
    found = [*(scale.ticks() + more for scale, more in zip(scales, lacking, strict=True)), of_values]
    for place, ticks in enumerate(found):
        axes.vlines(place, 0, 1, color=GREY, linewidth=0.9, zorder=0)
        axes.hlines([height for height, _ in ticks], place - 0.02, place, color=GREY, linewidth=0.9)
        for height, text in ticks:
            axes.text(place - 0.04, height, text, ha="right", va="center", fontsize=SMALL, bbox=PAPER, zorder=4)
    names = [*(_wrapped(scale) for scale in scales), plain(value_text(subject)).replace(" ", "\n", 1)]
    axes.set_xticks(range(len(found)), names, fontsize=SMALL if len(found) > 5 else NORMAL)
    axes.set_yticks([])
    axes.set_xlim(-0.5, len(found) - 0.85)
    axes.set_ylim((MISSING if any(lacks) else 0.0) - 0.05, 1.05)
    axes.spines[:].set_visible(False)
    axes.tick_params(axis="x", length=0)


def _wrapped(scale: Scale) -> str:
    """Return a key over two lines, its section above, and what is to be said of its axis."""
    head, dot, tail = scale.key.rpartition(".")
    return "\n".join(plain(cut(text, LONGEST_NAME)) for text in (head + dot, tail, scale.note) if text)


def _of_all(subject: Subject) -> str:
    """Return how many of the parameters a picture shows, where it is not all."""
    return f" ({MAX_SHOWN} of {len(subject.space)} parameters)" if len(subject.space) > MAX_SHOWN else ""


def _said(subject: Subject, scales: list[Scale]) -> str:
    return f"{subject.counts}; {', '.join(scale.key for scale in scales)}"
