"""Parallel coordinates: one axis a parameter and one for the value, one line a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import GREY, NORMAL, PAPER, SMALL, figure_legend, new_figure, plain, save
from trainwright.tools.hyperparameter_tuner.analysis.marks import (
    BEST,
    MISSING,
    MISSING_LABEL,
    by_value,
    robust_ends,
    scales_of,
    value_bar,
    value_text,
)
from trainwright.tools.hyperparameter_tuner.analysis.slices import leading_keys

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from trainwright.tools.hyperparameter_tuner.analysis.marks import Scale
    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject
    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord

MOST_AXES = 6


def parallel(subject: Subject, path: Path) -> tuple[Path, str]:
    """Draw the completed trials as lines through their parameters, coloured by value, the best one on top."""
    keys = leading_keys(subject, MOST_AXES)
    trials = subject.completed
    scales = scales_of(subject.space, keys, trials)
    figure, panels = new_figure(1, 1, 4.8)
    axes = panels[0][0]
    values = [one.value for one in trials if one.value is not None]
    ends = robust_ends(values) or (min(values), max(values))
    colours = by_value(subject, [min(max(value, ends[0]), ends[1]) for value in values])
    sign = 1 if subject.direction == "maximize" else -1
    for trial in sorted(trials, key=lambda one: sign * (one.value or 0.0)):  # the better ones above the worse ones
        is_best = subject.best is not None and trial.number == subject.best.number
        style: dict[str, Any] = {"color": colours.to_rgba(trial.value), "linewidth": 1.2, "alpha": 0.8}
        if is_best:
            style = {"color": BEST, "linewidth": 2.4, "label": f"best: trial {trial.number}, {trial.value:.5g}"}
        axes.plot(range(len(scales) + 1), _line(scales, trial, ends), marker="o", markersize=3, **style)
    _axes(axes, scales, ends, subject, trials)
    value_bar(figure, colours, subject, axes)
    figure_legend(figure, [axes])
    more = f" ({len(keys)} of {len(subject.space)} parameters)" if len(keys) < len(subject.space) else ""
    return save(figure, f"Completed trials of {subject.title}{more}", path), f"{subject.counts}; {', '.join(keys)}"


def _line(scales: list[Scale], trial: TrialRecord, ends: tuple[float, float]) -> list[float]:
    """Return a trial's places on the axes, its value's last; the place below where it lacks a parameter."""
    places = [MISSING if (place := scale.of(trial.parameters)) is None else place for scale in scales]
    low, high = ends
    value = min(max(trial.value or 0.0, low), high)
    return [*places, (value - low) / (high - low) if high > low else 0.5]


def _axes(
    axes: Axes, scales: list[Scale], ends: tuple[float, float], subject: Subject, trials: list[TrialRecord]
) -> None:
    """Draw an upright line with its ticks for each parameter, named below it."""
    low, high = ends
    value_ticks = [(share, f"{low + share * (high - low):.4g}") for share in (0.0, 0.5, 1.0)]
    found = [*(scale.ticks() for scale in scales), value_ticks if high > low else [(0.5, f"{low:.4g}")]]
    has_missing = [any(scale.key not in one.parameters for one in trials) for scale in scales]
    for place, ticks in enumerate(found):
        axes.plot([place, place], [0, 1], color=GREY, linewidth=0.9, zorder=0)
        lacking = [(MISSING, MISSING_LABEL)] if place < len(scales) and has_missing[place] else []
        for height, text in [*ticks, *lacking]:
            axes.plot([place - 0.02, place], [height, height], color=GREY, linewidth=0.9)
            axes.text(
                place - 0.04, height, text, ha="right", va="center", fontsize=SMALL, bbox=PAPER, zorder=4, clip_on=False
            )
    names = [_wrapped(scale.key) + ("\n(log scale)" if scale.is_log else "") for scale in scales]
    value_name = plain(value_text(subject)).replace(" ", "\n", 1)
    axes.set_xticks(range(len(found)), [*names, value_name], fontsize=SMALL if len(found) > 5 else NORMAL)
    axes.set_yticks([])
    axes.set_xlim(-0.5, len(found) - 0.85)
    axes.set_ylim((MISSING if any(has_missing) else 0.0) - 0.05, 1.05)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(axis="x", length=0)


def _wrapped(key: str) -> str:
    """Return a key over two lines, its section above."""
    head, dot, tail = plain(key).rpartition(".")
    return f"{head}{dot}\n{tail}" if head else tail
