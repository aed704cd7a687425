"""Experiments whose workers, conductor and server are killed with SIGKILL at random: nothing lost, doubled or changed.

Ideas of which some help, some change nothing and some break the run are tried one after the other, while a worker, the
conductor, the server that is asked about them, or all of these together are killed again and again. Then `verify`
derives every verdict again from the sealed runs; each experiment has one run for each state and seed of its looks; and
one pair of runs of each is trained again in peace, in a workspace of its own, and compared to the last bit.

Prints a line for each experiment and, as its last line, one JSON object: `kills`, `experiments`, and of all their runs
those that are `lost`, `doubled` or, of the pairs that were trained again, `different`.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from study_kills import CONFIG, GOAL, Tally, one_server

from trainwright.tools import projects
from trainwright.tools.hyperparameter_tuner import StudyView, start_study, study_status
from trainwright.tools.hyperparameter_tuner.trials import FAILED, TrialRecord, trials_of
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import runs_of
from trainwright.trainer.run import RunKind

PROJECT = "digits"
RATE, HIDDEN = "optimizer.learning_rate", "model.args.hidden"
IDEAS: tuple[dict[str, Any], ...] = (
    {RATE: 0.01}, {RATE: 0.0002}, {HIDDEN: [64]}, {HIDDEN: [33]}, {RATE: 500.0}, {"loader.batch_size": 33},
)  # fmt: skip
"""A higher rate helps; of the others some change next to nothing, and one makes the loss run away."""
ENDED = frozenset({"completed", "failed"})


def make_project(path: Path) -> Workspace:
    """Open a workspace with a project whose baseline has passed, by a real run."""
    workspace = Workspace.open(path, patience_seconds=120)
    projects.create_project(workspace, PROJECT, intent="", goal=GOAL, config=CONFIG)
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        wait_for_run(workspace, start_run(workspace, PROJECT, kind).run_id, 300)
        projects.pass_gate(workspace, PROJECT, phase)
    return workspace


def in_war(workspace: Workspace, number: int, draw: random.Random, tally: Tally) -> StudyView:
    """Try one idea while what works on it is killed; return the ended study."""
    changes = dict(IDEAS[number % len(IDEAS)]) | {"training.epochs": 6 + number // len(IDEAS)}  # none is tried twice
    search = {
        "experiment": {"idea": f"idea {number}", "changes": changes, "against": "planned", "max_repeats": 5},
        "width": 2,
    }
    study_id = start_study(workspace, PROJECT, search=search).study_id
    while True:
        how = asyncio.run(one_server(workspace, PROJECT, study_id, is_done=_has_ended, draw=draw, tally=tally))
        if how == "done":
            return study_status(workspace, study_id)
        if how == "ended":  # it lost too many conductors: starting it again is the remedy
            start_study(workspace, PROJECT, search=search)


def _has_ended(answer: dict[str, Any]) -> bool:
    return answer.get("state") in ENDED


def count_runs(workspace: Workspace, view: StudyView, tally: Tally) -> list[TrialRecord]:
    """Count the runs that are missing, or that there are twice; return the experiment's."""
    with workspace.session() as session:
        runs = [run for run in runs_of(session, PROJECT, RunKind.ABLATION) if run.study == view.study_id]
        trials = trials_of(session, view.study_id)
    of_each = collections.Counter((run.label, run.seed) for run in runs)
    tally.doubled += sum(count - 1 for count in of_each.values())
    tally.lost += sum(trial.run is None or trial.state == "running" for trial in trials) + len(trials) % 2
    return trials


def compare_again(
    workspace: Workspace, number: int, trials: list[TrialRecord], draw: random.Random, tally: Tally
) -> None:
    """Train one pair of an experiment's runs again in peace, and count what is different."""
    place = draw.randrange(len(trials) // 2) * 2
    for trial in trials[place : place + 2]:
        changes = {key: value for key, value in trial.parameters.items() if key != "seed"}
        run = start_run(workspace, PROJECT, RunKind.ABLATION, changes=changes, seed=trial.parameters["seed"]).run_id
        view = wait_for_run(workspace, run, 300)
        value = view.best["value"] if view.best is not None else None
        is_same = (view.state != "completed") if trial.state == FAILED else value == trial.value
        tally.different += not is_same
        if not is_same:
            tally.problems.append(f"idea {number}: {trial.state} {trial.value!r}, in peace {view.state} {value!r}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--experiments", type=int, default=40, help="at least; more until there were so many kills")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    began, draw, tally, number = time.monotonic(), random.Random(asked.seed), Tally(), 0
    verdicts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        war, peace = make_project(Path(name) / "war"), make_project(Path(name) / "peace")
        while number < asked.experiments or sum(tally.kills.values()) < asked.kills:
            view = in_war(war, number, draw, tally)
            verdict = (view.ablation or {}).get("verdict", view.state)
            verdicts[verdict] += 1
            trials = count_runs(war, view, tally)
            compare_again(peace, number, trials, draw, tally)
            print(
                f"idea {number}: {verdict} after {len(trials)} runs; {sum(tally.kills.values())} kills so far",
                flush=True,
            )
            number += 1
        tally.problems += verify_workspace(war.path).problems
        war.close()
        peace.close()
    for problem in tally.problems:
        print(f"  PROBLEM {problem}")
    figures = {
        "kills": sum(tally.kills.values()), "experiments": number, "verdicts": verdicts, "lost": tally.lost,
        "doubled": tally.doubled, "different": tally.different, "problems": len(tally.problems), "killed": tally.kills,
        "seconds": round(time.monotonic() - began),
    }  # fmt: skip
    print(json.dumps(figures))
    raise SystemExit(1 if tally.problems or tally.lost or tally.doubled or tally.different else 0)


if __name__ == "__main__":
    main()
