"""`trainwright study`: a search's trials in the terminal, or a copy of it for Optuna's dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.server.commands.terminal import Terminal
from trainwright.tools.gates.study_check import best_value
from trainwright.tools.hyperparameter_tuner.optuna_copy import copy_to_optuna
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord, trials_of
from trainwright.tools.hyperparameter_tuner.views import StudyView, view_study
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import study_named

if TYPE_CHECKING:
    from pathlib import Path


def show_study(path: Path, study: str, optuna: Path | None) -> None:
    """Print a study's trials, a line each; or write it in Optuna's form. Raises as `copy_to_optuna` does."""
    workspace, terminal = Workspace.open(path), Terminal()
    try:
        if optuna is not None:
            name, count = copy_to_optuna(workspace, study, optuna.expanduser().absolute())
            terminal.marked("ok", f"{optuna}: study {name}, {count} trials")
            terminal.line(f"      Look at it: uvx optuna-dashboard sqlite:///{optuna}")
            return
        with workspace.snapshot() as session:
            name = study_named(session, study)
            trials = trials_of(session, name)
        view = view_study(workspace, name, estimate=True)
        terminal.line(f"{study}: {_standing(view)}")
        if view.failure is not None:
            terminal.line(f"      {view.failure.get('message')} {view.failure.get('remedy') or ''}")
        for trial in trials:
            keys = ", ".join(f"{key} {given}" for key, given in sorted(trial.parameters.items()))
            further = "".join(f"{metric} {value:.6g}, " for metric, value in trial.further.items())
            terminal.line(f"{trial.number:>4}  {trial.state:<9}  {_value(trial, view.direction):>12}  {further}{keys}")
        if any(trial.value is None and trial.intermediate for trial in trials):
            terminal.line("      * best epoch so far")
    finally:
        workspace.close()


def _standing(view: StudyView) -> str:
    """Return in a line how far a study is, what it has found and how long it takes."""
    under_way = len(view.running or {}) or int(view.running_trial is not None)
    counts = {"pruned": view.pruned, "failed": view.failed, "under way": under_way}
    parts = [f"{view.state}, {view.trials_done} of {view.trials_total} trials ended"]
    parts += [f"{count} {name}" for name, count in counts.items() if count]
    if view.best is not None:
        parts.append(f"best trial {view.best.number} with {view.metric} {view.best.value:.6g}")
    if view.front is not None:
        parts.append(f"{view.front_size} on the Pareto front")
    if view.confirmation is not None:
        parts.append("improvement validated" if view.confirmation.get("validated") else "improvement not validated")
    if view.estimated_seconds is not None:
        parts.append(f"about {view.estimated_seconds:.0f} s left, repetitions included")
    return ", ".join(parts)


def _value(trial: TrialRecord, direction: str) -> str:
    if trial.value is not None:
        return f"{trial.value:.6g} "
    best = best_value(trial.intermediate, direction)
    return "" if best is None else f"{best:.6g}*"
