"""Killing our runs at random moments, and resuming them."""

from __future__ import annotations

import collections
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from comparing import differences
from scenarios import configuration

from trainwright.trainer import worker
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification, RunState
from trainwright.trainer.run.environment import launch_environment
from trainwright.trainer.user_code.guard import exit_now

HERE = Path(__file__).parent


@dataclass
class Tally:
    """What the kills of one scenario came to."""

    kills: int = 0
    in_identical: int = 0
    """Kills of runs that ended like the one left alone."""
    runs: int = 0
    identical_runs: int = 0


def make_run(folder: Path, name: str) -> RunDirectory:
    """Write the run directory of a scenario; every run of it has the same id."""
    config = parse_config(configuration(name))
    specification = RunSpecification(
        run_id="killed", project="bench", kind=RunKind.BASELINE, config=config,
        config_digest=config_digest(config), code_root=str(HERE),
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    return RunDirectory.create(folder / "killed", specification)


def start(run: RunDirectory) -> int:
    """Start the worker's main function in a fork of this process, in a process group of its own; return its id."""
    child = os.fork()
    if child:
        os.setpgid(child, child)
        return child
    code = 70
    try:
        log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout = sys.stderr = os.fdopen(log, "w", buffering=1)
        os.environ.update(launch_environment(run.specification().config))
        code = worker.main([str(run.path)])
    finally:
        exit_now(code)


def run_until(run: RunDirectory, seconds: float | None) -> bool:
    """Work on the run; kill it after `seconds`. Returns whether it was killed before it ended."""
    child = start(run)
    deadline = None if seconds is None else time.monotonic() + seconds
    while deadline is None or time.monotonic() < deadline:
        ended, _ = os.waitpid(child, os.WNOHANG)
        if ended:
            return False
        time.sleep(0.002)
    os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def finish(run: RunDirectory) -> None:
    """Let the run come to its end. Raises RuntimeError when it fails."""
    run_until(run, None)
    if run.status().state is not RunState.COMPLETED:
        raise RuntimeError(f"{run.path}: {run.status().state}\n{run.log.read_text()[-2000:]}")


def seconds_before_training(run: RunDirectory) -> float:
    """Return how long a run that has ended took to its first step."""
    events = list(run.events())
    started = next(event.time for event in events if event.kind == "started")
    first = next(event for event in events if event.kind == "epoch")
    return first.time - float(first.data["seconds"]) - started


def kill_and_resume(
    place: Path, name: str, kills: int, draw: random.Random, moments: collections.Counter[str], *, most: int = 4,
    anywhere: bool = True,
) -> Tally:  # fmt: skip
    """Kill runs of a scenario until so many kills were made, each run once to `most` times.

    Args:
        anywhere: from start-up on; else once training has begun.
    """
    whole = make_run(place / "whole", name)
    began = time.monotonic()
    finish(whole)
    duration, tally = time.monotonic() - began, Tally()
    earliest = 0.05 if anywhere else seconds_before_training(whole)
    while tally.kills < kills:
        run, mine = make_run(place / f"run{tally.runs}", name), 0
        for _ in range(draw.randint(1, most)):
            began = time.monotonic()
            if not run_until(run, draw.uniform(earliest, duration)):
                if (
                    not mine
                ):  # quicker than the first one, which loads what is loaded lazily: kill the next ones earlier
                    duration = min(duration, time.monotonic() - began)
                    earliest = earliest if anywhere else min(earliest, seconds_before_training(run))
                break
            mine += 1
            moments[run.status().stage or "starting"] += 1
        finish(run)
        same = not (found := differences(run, whole))
        tally.kills, tally.runs = tally.kills + mine, tally.runs + 1
        tally.in_identical += mine * same
        tally.identical_runs += same
        for difference in found:
            print(f"  DIFFERS {name}, run {tally.runs}: {difference}", flush=True)
    return tally
