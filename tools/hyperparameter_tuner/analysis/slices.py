"""Slices of a study: every trial's value over each parameter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import LOG_RATIO, NORMAL, SMALL, cut, figure_legend, label, new_figure, plain, save
from trainwright.tools.hyperparameter_tuner.analysis.marks import BEST_MARK, mark, robust_ends, scales_of, value_text
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from trainwright.tools.hyperparameter_tuner.analysis.marks import Scale
    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject
    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord

MOST_SLICES = 6
COLUMNS = 3
LONGEST_TICKS = 24
"""Characters of a panel's ticks together, above which they are turned."""
SPREAD = 0.3
"""Share of a choice's part over which its trials are spread, so that they do not hide one another."""


def leading_keys(subject: Subject, most: int) -> list[str]:
    """Return the keys that a picture shows: the most important first, and those of unknown importance by name."""
    ranked = subject.importance.ranked
    return [*ranked, *(key for key in sorted(subject.space) if key not in ranked)][:most]


def slices(subject: Subject, path: Path) -> tuple[Path, str]:
    """Draw each trial's value over each parameter, at most six, one panel each."""
    keys = leading_keys(subject, MOST_SLICES)
    columns = min(COLUMNS, len(keys))
    rows = math.ceil(len(keys) / columns)
    figure, panels = new_figure(rows, columns, 1.0 + 2.6 * rows, sharey=True)
    shown = [one for one in subject.trials if subject.value(one) is not None]
    for axes, scale in zip(panels.flat, scales_of(subject.space, keys, shown), strict=False):
        _panel(axes, scale, subject, shown)
    for axes in panels.flat[len(keys) :]:
        axes.set_visible(False)
    _value_axis(panels, subject, shown)
    figure_legend(figure, panels.flat)
    more = f" ({len(keys)} of {len(subject.space)} parameters)" if len(keys) < len(subject.space) else ""
    return save(figure, f"Slices of {subject.title}{more}", path), f"{subject.counts}; {', '.join(keys)}"


def _panel(axes: Axes, scale: Scale, subject: Subject, shown: list[TrialRecord]) -> None:
    have = [one for one in shown if scale.key in one.parameters]
    for state in (PRUNED, FAILED, COMPLETED):
        of_state = [one for one in have if one.state == state]
        x = [_spread(scale, one) for one in of_state]
        mark(axes, state, x, [_value(subject, one) for one in of_state], state, alpha=0.8)
    if subject.best is not None and scale.key in subject.best.parameters:
        place = _spread(scale, subject.best)
        axes.plot([place], [_value(subject, subject.best)], label=f"best: trial {subject.best.number}", **BEST_MARK)
    scale.draw_ticks(axes, 4)
    if sum(len(text) for _, text in scale.ticks()) > LONGEST_TICKS and scale.is_categorical:
        axes.tick_params(axis="x", labelrotation=25)
    missing = len(shown) - len(have)
    title = f"{missing} of {len(shown)} trials without it" if missing else ""
    label(axes, title, cut(scale.key, 30) + (" (log scale)" if scale.is_log else ""), "", legend=False)


def _value_axis(panels: Any, subject: Subject, shown: list[TrialRecord]) -> None:
    """Scale the values of all panels alike: logarithmic where they are positive and far apart."""
    values = [_value(subject, one) for one in shown]
    scale = ""
    if subject.direction == "minimize" and values and min(values) > 0 and max(values) / min(values) > LOG_RATIO:
        panels[0][0].set_yscale("log")
        scale = " (log scale)"
    elif (ends := robust_ends(values)) is not None:
        panels[0][0].set_ylim(*ends)
        scale = "\n(a few lie beyond)"
    for row in panels:
        row[0].set_ylabel(plain(value_text(subject)) + scale, fontsize=NORMAL)
        row[0].tick_params(labelsize=SMALL)


def _value(subject: Subject, trial: TrialRecord) -> float:
    value = subject.value(trial)
    return math.nan if value is None else value  # NaN is not drawn


def _spread(scale: Scale, trial: TrialRecord) -> float:
    """Return a trial's place; within a choice its trials lie beside one another in their order."""
    place = scale.place(trial.parameters[scale.key])
    if not scale.is_categorical:
        return place
    return place + SPREAD / len(scale.ticks()) * ((trial.number * 0.618034) % 1.0 - 0.5)
