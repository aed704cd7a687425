"""How many epochs pruning saves, and what it costs: whole studies of three real tasks, pruned and unpruned (TUNE-2).

Every setting searches with the same seeds and the same number of trials. Epochs saved are those that an unpruned study
trains and this one does not; regret is by how much its best trial is worse than the unpruned study's, in points (100
times the metric). Beside them stands plain Optuna with its pruners, against its own unpruned study. All read curves
that the engine trained; for each task one whole real study must equal its replay line for line.

Prints tables and, as its last line, one JSON object: `epochs_saved_percent` and `regret_points` of the recommended
setting, each the worst of the tasks in the mean over the seeds, and every task's figures.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import plain_optuna
from curves import Curves, default_folder
from figures import Figures, compared, summary, table
from real import differences
from replay import replay
from settings import RECOMMENDED, SETTINGS, of_method
from tasks import DIRECTION, SPACE, TASKS

from trainwright.tools.hyperparameter_tuner.trials import TrialRecord
from trainwright.trainer.config import SearchSection

TRIALS, SEEDS, METHODS = 30, 10, ("random", "tpe")


def search_of(method: str, pruning: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return a search as a call gives it."""
    return {"method": method, "trials": TRIALS, "seed": seed, "space": SPACE, "pruning": pruning}


def ours(method: str, pruning: dict[str, Any], seed: int, curves: Curves) -> list[TrialRecord]:
    """Return the trials of a search, as `start_tuning` settles it."""
    search = SearchSection.model_validate(search_of(method, pruning, seed) | {"present_first": True})
    return replay(search, DIRECTION, curves.base, curves)


def theirs(method: str, pruner: str, seed: int, curves: Curves, given: list[TrialRecord]) -> list[TrialRecord]:
    """Return the trials of plain Optuna: of its own TPE, or, in a random search, those that ours drew too."""
    parameters = [trial.parameters for trial in given] if method == "random" else []
    return plain_optuna.play(method, pruner, seed, SPACE, curves, trials=TRIALS, given=parameters)


def measure(tasks: list[str], seeds: int, methods: list[str], folder: Path) -> Figures:
    """Play every setting on every task and seed."""
    found: Figures = {}
    for method in methods:
        for name in tasks:
            began, trained = time.monotonic(), 0
            for seed in range(seeds):
                curves = Curves(TASKS[name], seed, folder)
                whole = ours(method, SETTINGS["none"], seed, curves)
                for setting, pruning in of_method(method).items():
                    figures = compared(ours(method, pruning, seed, curves), whole)
                    found.setdefault((method, setting), {}).setdefault(name, []).append(figures)
                plain = theirs(method, "none", seed, curves, whole)
                for pruner in plain_optuna.PRUNERS:
                    figures = compared(theirs(method, pruner, seed, curves, whole), plain)
                    found.setdefault((method, f"Optuna: {pruner}"), {}).setdefault(name, []).append(figures)
                trained += curves.trained
            print(f"{method}, {name}: {trained} curves trained, {time.monotonic() - began:.0f} s", flush=True)
    return found


def main() -> None:
    """Measure, hold real studies against the replay, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one task, two seeds, random search")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--only", nargs="*", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--curves", type=Path, default=default_folder(), help="where curves are kept")
    parser.add_argument("--no-real", action="store_true", help="leave the real studies out; the result says so")
    asked = parser.parse_args()
    if asked.quick:
        asked.seeds, asked.methods, asked.only = 2, ["random"], ["breast_cancer"]
    began = time.monotonic()
    figures = measure(asked.only, asked.seeds, asked.methods, asked.curves)
    print("\n".join(table(figures, asked.only)), flush=True)
    problems, equal = [], 0
    for name in [] if asked.no_real else asked.only:
        search = search_of(asked.methods[-1], SETTINGS[RECOMMENDED], 0)
        found, epochs = differences(TASKS[name], 0, search, Curves(TASKS[name], 0, asked.curves))
        print(f"{name}: a real study of {epochs} epochs, {len(found)} differences from its replay", flush=True)
        problems += [f"{name}, {what}" for what in found]
        equal += not found
    for problem in problems:
        print(f"  PROBLEM {problem}")
    result = {method: summary(figures[method, RECOMMENDED]) for method in asked.methods}
    worst = {
        "epochs_saved_percent": min(one["epochs_saved_percent"] for one in result.values()),
        "regret_points": max(one["regret_points"] for one in result.values()),
    }
    others = {"setting": RECOMMENDED, "methods": result, "seeds": asked.seeds, "trials": TRIALS}
    counts = {"real_studies_equal": equal, "problems": len(problems), "load": round(os.getloadavg()[0], 1)}
    print(json.dumps({**worst, **others, **counts, "seconds": round(time.monotonic() - began)}))
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
