"""Contour of a study's value over its two most important parameters, drawn between the completed trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import figure_legend, label, new_figure, plain, save
from trainwright.tools.hyperparameter_tuner.analysis.marks import (
    BEST_MARK,
    Scale,
    by_value,
    mark,
    robust_ends,
    scales_of,
    value_bar,
)
from trainwright.tools.hyperparameter_tuner.analysis.slices import SPREAD, leading_keys
from trainwright.tools.hyperparameter_tuner.trials import PRUNED

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject
    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord

ENOUGH_POINTS = 6
"""Trials below which a surface between them would be invented."""
LEVELS = 12
FLATTEST = 0.02
"""A triangle whose inner circle is smaller than this share of its outer one is left out: it spans far places."""


def contour(subject: Subject, path: Path) -> tuple[Path, str]:
    """Draw the completed trials over the two most important parameters, and the value between them."""
    across, up = scales_of(subject.space, leading_keys(subject, 2), subject.trials)
    trials = [one for one in subject.completed if {across.key, up.key} <= one.parameters.keys()]
    figure, panels = new_figure(1, 1, 5.0)
    axes = panels[0][0]
    values = [one.value for one in trials if one.value is not None]
    ends = robust_ends(values) or (min(values), max(values))
    shown = [min(max(value, ends[0]), ends[1]) for value in values]
    colours = by_value(subject, shown)
    x, y = ([_place(scale, one, axis) for one in trials] for axis, scale in enumerate((across, up)))
    is_surface = not (across.is_categorical or up.is_categorical) and _surface(axes, x, y, shown, colours)
    axes.scatter(x, y, c=colours.to_rgba(values), s=42, edgecolors="black", linewidths=0.7, zorder=3, label="completed")
    pruned = [one for one in subject.of(PRUNED) if {across.key, up.key} <= one.parameters.keys()]
    places = [[_place(scale, one, axis) for one in pruned] for axis, scale in enumerate((across, up))]
    mark(axes, PRUNED, places[0], places[1], "pruned", alpha=0.7)
    if subject.best is not None and subject.best in trials:
        place = trials.index(subject.best)
        axes.plot([x[place]], [y[place]], label=f"best: trial {subject.best.number}", **BEST_MARK)
    label(axes, "", _text(across), _text(up), legend=False)
    across.draw_ticks(axes)
    up.draw_ticks(axes, vertical=True)
    if is_surface:
        axes.grid(visible=False)
    value_bar(figure, colours, subject, axes)
    figure_legend(figure, [axes])
    return save(figure, f"{_basis(subject)} of {subject.title}", path), _said(subject, across, up, len(trials))


def _basis(subject: Subject) -> str:
    return "Two most important parameters" if subject.importance.ranked else "Two parameters, the first by name,"


def _said(subject: Subject, across: Scale, up: Scale, count: int) -> str:
    found = subject.importance
    how = "the most important ones" if found.ranked else f"the first by name ({found.note})"
    return f"{count} completed trials over {across.key} and {up.key}, {how}"


def _text(scale: Scale) -> str:
    return plain(scale.key + (" (log scale)" if scale.is_log else ""))


def _place(scale: Scale, trial: TrialRecord, axis: int) -> float:
    """Return a trial's place; trials of one choice lie beside one another, not on one another."""
    place = scale.place(trial.parameters[scale.key])
    if not scale.is_categorical:
        return place
    ratio = (0.618034, 0.754878)[axis]
    return place + SPREAD / len(scale.ticks()) * ((trial.number * ratio) % 1.0 - 0.5)


def _surface(axes: Axes, x: list[float], y: list[float], values: list[float], colours: Any) -> bool:
    """Draw the value between the trials, by triangles; return whether there are enough places for one."""
    from matplotlib.tri import TriAnalyzer, Triangulation

    points = list(dict.fromkeys(zip(x, y, strict=True)))
    if len(points) < ENOUGH_POINTS or min(values) == max(values):
        return False
    kept: dict[tuple[float, float], float] = dict(zip(zip(x, y, strict=True), values, strict=True))
    try:
        mesh = Triangulation([point[0] for point in points], [point[1] for point in points])
    except RuntimeError:  # all on one line
        return False
    mesh.set_mask(TriAnalyzer(mesh).get_flat_tri_mask(FLATTEST))
    style: dict[str, Any] = {"norm": colours.norm, "levels": LEVELS}
    axes.tricontourf(mesh, [kept[point] for point in points], cmap=colours.get_cmap(), alpha=0.75, **style)
    axes.tricontour(mesh, [kept[point] for point in points], colors="white", linewidths=0.5, alpha=0.7, **style)
    return True
