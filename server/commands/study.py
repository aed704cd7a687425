"""`trainwright study`: a search's trials in the terminal, or a copy of it for Optuna's dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.server.commands.terminal import Terminal
from trainwright.tools.hyperparameter_tuner.optuna_copy import copy_to_optuna
from trainwright.tools.hyperparameter_tuner.trials import trials_of
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
            trials = trials_of(session, study_named(session, study))
        for trial in trials:
            value = "" if trial.value is None else f"{trial.value:.6g}"
            keys = ", ".join(f"{key} {given}" for key, given in sorted(trial.parameters.items()))
            terminal.line(f"{trial.number:>4}  {trial.state:<9}  {value:>12}  {keys}")
    finally:
        workspace.close()
