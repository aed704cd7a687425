"""What pruning saved and what it cost, of one study and of all, and whether that is what was asked for."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from tasks import DIRECTION, EPOCHS

from trainwright.tools.hyperparameter_tuner.trials import TrialRecord, best_trial

SAVED_PERCENT, REGRET_POINTS = 75.0, 0.3
"""What issue 15 asks for: at least, and at most."""
OfTasks = dict[str, list[tuple[float, float]]]
"""Task to each seed's epochs saved in percent, and regret in points."""
Figures = dict[tuple[str, str], OfTasks]
"""(method, setting) to its figures."""


def compared(trials: list[TrialRecord], whole: list[TrialRecord]) -> tuple[float, float]:
    """Return (epochs saved in percent, regret in points) of a pruned study against the whole one.

    A study that completed no trial found nothing: its regret is that of a value of 0.
    """
    spent = sum(len(trial.intermediate) for trial in trials)
    return 100 * (1 - spent / (EPOCHS * len(whole))), 100 * (_best(whole) - _best(trials))


def _best(trials: list[TrialRecord]) -> float:
    best = best_trial(trials, DIRECTION)
    return 0.0 if best is None or best.value is None else best.value


def summary(of_tasks: OfTasks) -> dict[str, Any]:
    """Return each task's means over the seeds, and the worst of them."""
    by_task = {
        name: {
            "epochs_saved_percent": round(fmean(saved for saved, _ in of_seeds), 1),
            "regret_points": round(fmean(regret for _, regret in of_seeds), 2),
            "worst_seed_regret_points": round(max(regret for _, regret in of_seeds), 2),
        }
        for name, of_seeds in of_tasks.items()
    }
    return {
        "epochs_saved_percent": min(one["epochs_saved_percent"] for one in by_task.values()),
        "regret_points": max(one["regret_points"] for one in by_task.values()),
        "tasks": by_task,
    }


def table(figures: Figures, tasks: list[str]) -> list[str]:
    """Return the table in Markdown: epochs saved and regret of each setting, on each task and at worst."""
    lines = [f"| method | pruning | {' | '.join(tasks)} | worst | reached |", "| --- " * (4 + len(tasks)) + "|"]
    for (method, setting), of_tasks in figures.items():
        one = summary(of_tasks)
        cells = [
            f"{of['epochs_saved_percent']:.1f} %, {of['regret_points']:.2f} ({of['worst_seed_regret_points']:.2f})"
            for of in one["tasks"].values()
        ]
        is_reached = one["epochs_saved_percent"] >= SAVED_PERCENT and one["regret_points"] <= REGRET_POINTS
        worst = f"{one['epochs_saved_percent']:.1f} %, {one['regret_points']:.2f}"
        lines.append(f"| {' | '.join([method, setting, *cells, worst, 'yes' if is_reached else 'no'])} |")
    return lines
