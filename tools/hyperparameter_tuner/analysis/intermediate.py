"""Intermediate values: the curve of every trial over its epochs, and where the pruned ones were stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import BLUE, GREY, ORANGE, figure_legend, is_drawable, label, new_figure, save
from trainwright.tools.hyperparameter_tuner.analysis.marks import BEST, MARKS, robust_ends, value_text
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, RUNNING

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject
    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord

LINES: dict[str, dict[str, Any]] = {
    COMPLETED: {"color": BLUE, "linestyle": "-"},
    PRUNED: {"color": ORANGE, "linestyle": "--"},
    FAILED: {"color": "black", "linestyle": ":"},
    RUNNING: {"color": GREY, "linestyle": "-."},
}


def intermediate(subject: Subject, path: Path) -> tuple[Path, str]:
    """Draw every trial's values by epoch; a mark ends those that were pruned or failed."""
    figure, panels = new_figure(1, 1, 4.6)
    axes = panels[0][0]
    values: list[float] = []
    for state in (PRUNED, FAILED, RUNNING, COMPLETED):
        found = [one for one in subject.of(state) if _points(one)]
        for place, trial in enumerate(found):
            values += _curve(axes, trial, f"{state} ({len(found)})" if place == 0 else None, len(subject.trials))
    if subject.best is not None and (points := _points(subject.best)):
        text = f"best: trial {subject.best.number}"
        axes.plot([x for x, _ in points], [y for _, y in points], color=BEST, linewidth=2.2, label=text, zorder=5)
    label(axes, "", "epoch", value_text(subject), log=subject.direction == "minimize", legend=False)
    if axes.get_yscale() == "linear" and (ends := robust_ends(values)) is not None:
        axes.set_ylim(*ends)
        axes.set_ylabel(axes.get_ylabel() + "\n(a few values lie beyond)")
    figure_legend(figure, [axes])
    return save(figure, f"Trials of {subject.title} by epoch", path), _said(subject)


def _points(trial: TrialRecord) -> list[tuple[int, float]]:
    return [(epoch, value) for epoch, value in sorted(trial.intermediate.items()) if is_drawable(value)]


def _curve(axes: Axes, trial: TrialRecord, text: str | None, count: int) -> list[float]:
    """Draw one trial and return its values: a line, its end marked where it did not complete."""
    points = _points(trial)
    x, y = [epoch for epoch, _ in points], [value for _, value in points]
    alone = "o" if len(points) == 1 and trial.state in {COMPLETED, RUNNING} else None
    shade = 0.85 if count <= 15 else 0.55
    ended = trial.state in {PRUNED, FAILED}
    axes.plot(
        x,
        y,
        linewidth=1.1,
        alpha=shade,
        label=None if ended else text,
        marker=alone,
        markersize=4,
        **LINES[trial.state],
    )
    if ended:
        style = {**MARKS[trial.state], **LINES[trial.state]}
        axes.plot(x[-1:], y[-1:], label=text, zorder=4, linewidth=1.1, **style)
    return y


def _said(subject: Subject) -> str:
    pruned = [max(one.intermediate) for one in subject.of(PRUNED) if one.intermediate]
    stopped = f"; pruned at epochs {min(pruned)} to {max(pruned)}" if pruned else ""
    return subject.counts + stopped
