"""Processes of ours beside the workers: jobs, which answer an order in a folder, and daemons, of which it has one.

Both outlive the call and the server that started them: whoever asks later knows them by the folder.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from trainwright.tools.launchers import LAUNCH, Launch, may_begin, read_launch, worker_wall, write_launch
from trainwright.tools.launchers.environment import command_of
from trainwright.tools.launchers.local import spawn
from trainwright.tools.launchers.worker_wall import Walled, order_for_job
from trainwright.trainer.base.secrets import without_secrets
from trainwright.trainer.jobs.answering import ORDER, REPORT
from trainwright.trainer.run import write_atomically
from trainwright.trainer.run.runtime import Runtime

LOG = "worker.log"
LOG_CHARACTERS = 300
POLL_SECONDS = 0.1


class NoAnswerError(Exception):
    """A job will not answer: its `launch`, None where the record is gone, whether it `took_long`, and its exit code.

    The code is known of one that was asked by `ask` alone.
    """

    exit_code: int | None = None

    def __init__(self, launch: Launch | None, *, took_long: bool) -> None:
        self.launch, self.took_long = launch, took_long


def begin(
    folder: Path, module: str, order: Mapping[str, Any], *, cwd: Path, env: Mapping[str, str],
    by: Walled | None = None, runtime: Runtime | None = None, ended: Callable[[int], object] = lambda _: None,
) -> Launch:  # fmt: skip
    """Start a process for an order, as `spawn` does, in the project's environment where one is given.

    Args:
        by: by what the wall round it is built; None: there is none.
    """
    write_atomically(folder / ORDER, json.dumps(order).encode())
    wall = None if by is None else order_for_job(by, folder, order, env, runtime)
    command = command_of(runtime, module, str(folder), order=wall)

    def over(code: int) -> None:
        worker_wall.forget(folder)
        ended(code)

    return spawn(folder, Launch(), command, cwd=cwd, env=env, log=LOG, ended=over)


def ask(
    folder: Path, module: str, order: Mapping[str, Any], wait_seconds: float, should_stop: Callable[[], bool],
    *, cwd: Path, env: Mapping[str, str], by: Walled | None = None, runtime: Runtime | None = None,
) -> dict[str, Any] | None:  # fmt: skip
    """Return the answer to an order; None where it takes longer. The process ends with the call, and all of its.

    Raises:
        NoAnswerError, OSError: it ended without an answer; it could not be started.
    """
    exited: Future[int] = Future()
    launch = begin(folder, module, order, cwd=cwd, env=env, by=by, runtime=runtime, ended=exited.set_result)
    if launch.error is not None:
        raise OSError(launch.error)
    try:
        return answer_of(folder, wait_seconds, should_stop)
    except NoAnswerError as end:
        end.exit_code = exited.result()
        raise
    finally:
        kill(launch)
        exited.result()


def answer_of(
    folder: Path, wait_seconds: float, should_stop: Callable[[], bool],
    *, limit: float = math.inf, order: str | None = None,
) -> dict[str, Any] | None:  # fmt: skip
    """Return what a job left; None while it is at work after the wait. One that takes longer than `limit` is ended.

    Args:
        order: its `id`, where the folder serves one order after another.

    Raises:
        NoAnswerError: it ended without an answer, could not be started, or took too long.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        launch = read_launch(folder)
        has_ended = launch is None or not may_begin(launch)
        if (found := report_of(folder, order)) is not None:  # read last: it may have answered before it ended
            return found
        if has_ended or (launch is not None and time.time() - launch.launched_at > limit):
            kill(launch)
            raise NoAnswerError(launch, took_long=not has_ended)
        if time.monotonic() >= deadline or should_stop():
            return None
        time.sleep(POLL_SECONDS)


def report_of(folder: Path, order: str | None = None) -> dict[str, Any] | None:
    """Return what a job left, if it is of this order."""
    found = read_json(folder / REPORT)
    return found if isinstance(found, dict) and found.get("order") == order else None


def read_json(path: Path) -> Any:
    """Return what a file holds; None where there is none that can be read."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def kill(launch: Launch | None) -> None:
    """Kill the process of a launch, where there is one, and all that descend from it."""
    if launch is not None and launch.process is not None:
        launch.process.kill_tree()


def forget(folder: Path, *more: str) -> None:
    """Let the next order start anew: leave no answer, no record of a process, and none of `more` files."""
    for name in (REPORT, LAUNCH, *more):
        (folder / name).unlink(missing_ok=True)


def log_end(folder: Path, otherwise: str) -> str:
    """Return the end of what a job printed as a sentence, without passwords; `otherwise` where it is nothing."""
    try:
        text = " ".join((folder / LOG).read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        text = ""
    return f"Its log ends: {without_secrets(text, [])[-LOG_CHARACTERS:]}" if text else otherwise


# Daemons: each holds the lock `NAME.lock` of its folder (an flock) while it lives, and logs to `NAME.log`.


def is_held(lock: FileLock) -> bool:
    """Return whether a process holds the lock."""
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True


def ensure(
    lock: FileLock, module: str, *arguments: str, cwd: Path, env: Mapping[str, str],
    alone: AbstractContextManager[Any] | None = None,
    following: Callable[[Any, Launch | None], Launch | None] = lambda _, __: Launch(),
) -> Launch | None:  # fmt: skip
    """Start the process that holds a lock, unless one does; return its launch. Any number may ask at once.

    Args:
        arguments: of the process, after `cwd`.
        alone: lets one caller at a time decide, so that one process is started: none while the last may still begin.
            Without it several may be started, which find out by themselves that one has the lock.
        following: the launch after the last one, by what `alone` gives; None: there is to be none.
    """
    place = Path(lock.lock_file)
    place.parent.mkdir(parents=True, exist_ok=True)
    if is_held(lock):
        return None
    with alone or nullcontext() as known:
        last = read_launch(place.parent)
        if alone is not None and last is not None and may_begin(last):
            return None
        launch = following(known, last)
        if launch is None:
            return None
        write_launch(place.parent, launch)
    command = command_of(None, module, str(cwd), *arguments)
    return spawn(place.parent, launch, command, cwd=cwd, env=env, log=place.with_suffix(".log").name)
