"""History of a study: every trial's value in order, and the best so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.figures.style import figure_legend, label, new_figure, save
from trainwright.tools.hyperparameter_tuner.analysis.marks import BEST, BEST_MARK, mark, value_text
from trainwright.tools.hyperparameter_tuner.analysis.subject import STATES
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, best_trial

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject


def history(subject: Subject, path: Path) -> tuple[Path, str]:
    """Draw each trial's value and the best so far; a pruned trial stands at its best epoch before it was pruned."""
    figure, panels = new_figure(1, 1, 4.4)
    axes = panels[0][0]
    without = [trial.number for trial in subject.of(FAILED) if subject.value(trial) is None]
    for state in STATES:
        found = [(one.number, value) for one in subject.of(state) if (value := subject.value(one)) is not None]
        text = state if state == COMPLETED else f"{state}, at its best epoch"
        mark(axes, state, [x for x, _ in found], [y for _, y in found], text)
    _best_so_far(axes, subject)
    label(axes, "", "trial", value_text(subject), log=subject.direction == "minimize", legend=False)
    if without:
        axes.plot(
            without, [0.02] * len(without), "x", color="black", transform=axes.get_xaxis_transform(), clip_on=False,
            label="failed without a value (at the bottom)",
        )  # fmt: skip
    _whole_numbers(axes, len(subject.trials))
    figure_legend(figure, [axes])
    return save(figure, f"History of {subject.title}", path), _said(subject)


def _best_so_far(axes: Axes, subject: Subject) -> None:
    places, values = [], []
    within = " within the bounds" if any(one.bounds for one in subject.search.objectives) else ""
    for place in range(len(subject.trials)):
        best = best_trial(subject.trials[: place + 1], subject.direction, subject.search.objectives)
        if best is not None and best.value is not None:
            places.append(subject.trials[place].number)
            values.append(best.value)
    if places:
        axes.step(places, values, where="post", color=BEST, linewidth=1.5, label=f"best so far{within}", zorder=2)
    if subject.best is not None and subject.best.value is not None:
        axes.plot([subject.best.number], [subject.best.value], label=f"best: trial {subject.best.number}", **BEST_MARK)


def _whole_numbers(axes: Axes, count: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.set_xlim(-0.5, max(count - 0.5, 0.5))


def _said(subject: Subject) -> str:
    best = subject.best
    found = "no trial has completed" if best is None else f"best {best.value:.6g} at trial {best.number}"
    return f"{subject.counts}; {found}"
