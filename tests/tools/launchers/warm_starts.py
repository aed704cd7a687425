"""Starts whose server ends, or whose packages change: `python warm_starts.py HOW FOLDER`, in an interpreter of its own.

Prints one JSON object: whether each run was forked off a warm process, and the workers' ids.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

from trainwright.tools.launchers import Launch
from trainwright.tools.launchers.environment import worker_environment
from trainwright.tools.launchers.local import Local, kind_of
from trainwright.tools.launchers.warm import Kind, WarmLimits, WarmProcesses
from trainwright.trainer.run import RunDirectory, RunKey

PATIENCE_SECONDS = 120
SHORT: dict[str, Any] = {
    "model": {"use": "mlp"},
    "data": {"use": "iris", "expectations": {"without": ["label_errors", "leaks"]}},
    "training": {"epochs": 2},
    "logging": {"tensorboard": False},
}


def until(condition: Any, what: str) -> None:
    """Wait. Raises TimeoutError: in vain."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


def launcher(folder: Path, *, most: int = 3, idle_seconds: float = 600.0) -> Local:
    """Return a launcher with warm processes of its own."""
    made = Local()
    made.warm = WarmProcesses()
    made.warm.limits = WarmLimits(folder, most, idle_seconds)
    return made


def kind_of_run(run: RunDirectory) -> Kind:
    """Return which warm process serves the run."""
    specification = run.specification()
    return kind_of(specification, worker_environment(specification.config, specification.connections))


def warm_up(own: Local, run: RunDirectory) -> None:
    """Wait until a run like this one would start warm."""
    own.warm.prepare(kind_of_run(run), lambda: True)
    until(lambda: own.warm.is_ready(kind_of_run(run)), "no warm process became ready")


def ended(run: RunDirectory) -> None:
    """Wait until the run has ended and its worker is gone."""
    until(lambda: run.last_status().state.is_ended and not run.is_locked(), f"{run.path} did not end")


def begin(own: Local, run: RunDirectory, *, warm: bool) -> Launch:
    """Start the run, which has to be so."""
    launch = own.start(run, Launch(), RunKey.new())
    assert (launch.parent is not None) is warm, launch
    return launch


def count_of_starts(run: RunDirectory) -> int:
    """Return how many workers recorded that they began."""
    return [json.loads(line)["kind"] for line in (run.path / "events.jsonl").read_text().splitlines()].count("started")


def main(how: str, folder: Path) -> None:
    """Start the runs of the folder one after the other."""
    own, first, *others = launcher(folder / "warm"), *(RunDirectory(path) for path in sorted(folder.glob("run-*")))
    warm_up(own, first)
    found = []
    for number, run in enumerate([first, *others]):
        if how == "update" and number == 1:
            (Path(sysconfig.get_path("purelib")) / "new-1.0.dist-info").mkdir()
        launch = own.start(run, Launch(), RunKey.new())
        assert launch.process is not None, launch.error
        found.append({"is_warm": launch.parent is not None, "pid": launch.process.pid})
        if how == "abandon":
            break
        ended(run)
        until(lambda: own.warm.is_ready(kind_of_run(first)), "no warm process followed")
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
