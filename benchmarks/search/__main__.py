"""`make bench-search`: a search in two processes, beside a bare Optuna script and Ray Tune, in one interleaved run.

Every contestant searches the same space by the same sampler, in trials of the same epochs on the same rows, with no
pruning. Timed is, of ours, from the call to the last trial's seal, and apart the confirmation that follows; of the
others, their whole process. The last line is one JSON object: `ratio_to_bare` and `ratio_to_ray` (of the worst task;
`…_median` of the tasks, `…_with_confirmation` counting it), the seconds, and the parts of a trial.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ours
from figures import order_of, parts_of, summary_of, table_of
from moments import moments_of
from tasks import ROOT, TASKS, Task

HERE = Path(__file__).parent
RAY_PYTHON = ROOT / ".venv" / "companions" / "ray" / "bin" / "python"
CONTESTANTS = ("ours", "bare", "ray")


def script_seconds(python: str | Path, script: str, folder: Path, *, trials: int, seed: int) -> float:
    """Run a plain search and return the seconds of its process.

    Raises:
        RuntimeError: it failed, or trained another number of trials.
    """
    with tempfile.TemporaryDirectory(dir=folder) as place:
        order = json.dumps({"trials": trials, "seed": seed, "place": place})
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        began = time.monotonic()
        ended = subprocess.run(
            [str(python), "-P", str(HERE / script), str(folder), order],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - began
        if ended.returncode or (done := len(list(Path(place).glob("best-*.pt")))) != trials:
            raise RuntimeError(f"{script} ended with {ended.returncode} and {done} trials:\n{ended.stdout[-3000:]}")
    return seconds


class Contest:
    """One task's figures, contestant by contestant."""

    def __init__(self, task: Task, folder: Path, trials: int, warm: int | None) -> None:
        self.task, self.folder, self.trials = task, folder, trials
        task.prepare(folder)
        self.project = ours.ready_project(task, folder, warm=warm)
        self.seconds: dict[str, list[float]] = {"ours": [], "confirmation": [], "bare": [], "ray": []}
        self.parts: list[dict[str, float]] = []

    def take_turn(self, who: str, repetition: int) -> None:
        """Let one contestant search, and keep its seconds."""
        if who == "ours":
            self._search(repetition + 1)
        else:
            python, script = (sys.executable, "bare.py") if who == "bare" else (RAY_PYTHON, "ray_search.py")
            seconds = script_seconds(python, script, self.folder, trials=self.trials, seed=repetition + 1)
            self.seconds[who].append(seconds)
        load = os.getloadavg()[0]
        print(f"{self.task.name} {repetition + 1}: {who} {self.seconds[who][-1]:.1f} s (load {load:.1f})", flush=True)

    def _search(self, seed: int) -> None:
        searched = ours.carry_out(self.project, trials=self.trials, seed=seed)
        trials = moments_of(self.project, searched)
        if {one.epochs for one in trials} != {self.task.epochs} or len(trials) != self.trials:
            raise RuntimeError(f"not the trials that were asked for: {trials}")
        last = max(one.sealed for one in trials)
        self.seconds["ours"].append(last - searched.asked_at)
        self.seconds["confirmation"].append(searched.ended_at - last)
        self.parts.append(parts_of(trials, ours.WIDTH, searched.asked_at))

    @property
    def figures(self) -> dict[str, Any]:
        """Seconds and parts."""
        return {"seconds": self.seconds, "parts": self.parts}


def main() -> None:
    """Measure, print, sum up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="*", choices=sorted(TASKS), default=list(TASKS))
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--contestants", nargs="*", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--warm", type=int, help="warm processes that the owner's settings allow; else the default")
    asked = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    for name in asked.tasks:
        with tempfile.TemporaryDirectory() as place:
            contest = Contest(TASKS[name], Path(place).resolve() / name, asked.trials, asked.warm)
            for repetition in range(asked.repetitions):
                for who in order_of(asked.contestants, repetition):
                    contest.take_turn(who, repetition)
            contest.project.workspace.close()
        found[name] = contest.figures
        print("\n".join(table_of(name, asked.trials, found[name])), flush=True)
    print(
        json.dumps({**summary_of(found), "trials": asked.trials, "repetitions": asked.repetitions, "warm": asked.warm})
    )


if __name__ == "__main__":
    main()
