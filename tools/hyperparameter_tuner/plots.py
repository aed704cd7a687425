"""Plots of a study, drawn without a display."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import plain
from trainwright.tools.gates.study_check import best_value
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, PRUNED, TrialRecord
from trainwright.trainer.config.search import Choices

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.trainer.config import SearchSection

DOTS_PER_INCH = 110
COLORS = {COMPLETED: "#1f77b4", PRUNED: "#c7c7c7"}
MOST_SLICES = 6


def history_plot(trials: list[TrialRecord], objective: dict[str, Any], path: Path) -> None:
    """Draw each trial's value and the best so far. A pruned trial is drawn at its best epoch before it was pruned."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for state in (COMPLETED, PRUNED):
        shown = [(t.number, _value(t, objective)) for t in trials if t.state == state and t.intermediate]
        label = state if shown else None
        axes.scatter([x for x, _ in shown], [y for _, y in shown], color=COLORS[state], label=label, zorder=3)
    best: float | None = None
    line = []
    for trial in trials:
        if trial.state == COMPLETED and trial.value is not None:
            better = max if objective["direction"] == "maximize" else min
            best = trial.value if best is None else better(best, trial.value)
        if best is not None:
            line.append((trial.number, best))
    axes.step([x for x, _ in line], [y for _, y in line], where="post", color="#d62728", label="best so far")
    axes.set(xlabel="trial", ylabel=plain(f"validation {objective['metric']}"), title="Objective by trial")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=DOTS_PER_INCH)


def slice_plot(trials: list[TrialRecord], search: SearchSection, objective: dict[str, Any], path: Path) -> None:
    """Draw each trial's value over each parameter (the first six), one panel a parameter."""
    from matplotlib.figure import Figure

    keys = sorted(search.space)[:MOST_SLICES]
    figure = Figure(figsize=(3.2 * len(keys) + 0.6, 3.2), layout="constrained")
    panels = figure.subplots(1, len(keys), sharey=True, squeeze=False)[0]
    for axes, key in zip(panels, keys, strict=True):
        range_ = search.space[key]
        for state in (PRUNED, COMPLETED):
            shown = [
                (t.parameters[key], _value(t, objective))
                for t in trials
                if t.state == state and t.intermediate and key in t.parameters
            ]
            places = [range_.choices.index(x) if isinstance(range_, Choices) else x for x, _ in shown]
            axes.scatter(places, [y for _, y in shown], color=COLORS[state], label=state if shown else None)
        if isinstance(range_, Choices):
            axes.set_xticks(range(len(range_.choices)), [plain(str(choice)) for choice in range_.choices])
        elif range_.log:
            axes.set_xscale("log")
            ticks = [range_.low, math.sqrt(range_.low * range_.high), range_.high]
            axes.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
            axes.set_xticks([], minor=True)  # their labels overlap within a decade
        axes.set_xlabel(plain(key))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel(plain(f"validation {objective['metric']}"))
    panels[-1].legend()
    figure.savefig(path, dpi=DOTS_PER_INCH)


def _value(trial: TrialRecord, objective: dict[str, Any]) -> float:
    value = trial.value if trial.value is not None else best_value(trial.intermediate, objective["direction"])
    return math.nan if value is None else value  # NaN is not drawn
