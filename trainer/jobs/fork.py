"""Fork of a worker that does one piece of work and answers with JSON types, through a pipe.

It is made before the worker imports any user code, so that it begins as a fresh process does. It ends with the worker.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import psutil

from trainwright.trainer.base import seeding
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.ranks import SilentRun, die_with
from trainwright.trainer.run import RunDirectory, RunSpecification
from trainwright.trainer.supervision.stop import Abandoned, StopRequest
from trainwright.trainer.user_code import guard

POLL_SECONDS = 0.1
SIGNALS = (signal.SIGTERM, signal.SIGINT)
MAX_BYTES = 1 << 24
"""Of an answer."""
MAX_STATE_BYTES = 2 << 30
"""Of a model or checkpoint: two sessions of a larger one might not fit beside each other."""

Say = Callable[[dict[str, Any]], None]


def assembled_anew(run: RunDirectory, specification: RunSpecification) -> Session:
    """Return the session that a process of its own makes of a run; it records nothing. Raises what assembling does."""
    from trainwright.trainer.assembly.assemble import assemble
    from trainwright.trainer.reproducibility import determinism
    from trainwright.trainer.user_code import import_record, write_guard

    config, root = specification.config, Path(specification.code_root)
    run.key = None
    guard.install()
    import_record.install(root)
    write_guard.install(run.path, root)
    determinism.apply_settings(config.reproducibility, specification.exemptions)
    seeding.seed_everything(config.seed)
    return assemble(specification, SilentRun(run), StopRequest(run.stop_reason))


@dataclass
class Fork:
    """The worker's side of it."""

    pid: int
    reading: int
    starting: int

    @classmethod
    def of(cls, work: Callable[[Say], None]) -> Fork:
        """Fork a process that does the work once it is told to; `work` gets the function that answers."""
        (reading, writing), (waiting, starting) = os.pipe(), os.pipe()
        parent = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # none may be taken for this process's in the fork
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # the heartbeat is a thread; the fork uses nothing of it
            pid = os.fork()
        if pid == 0:
            os.close(starting)
            _be(work, writing, waiting, parent)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.close(writing)
        os.close(waiting)
        return cls(pid, reading, starting)

    def answer(self, stop: StopRequest, seconds: float = float("inf")) -> tuple[dict[str, Any] | None, int]:
        """Let it work; return its answer and its exit code (negative: a signal). None: it ended, or took too long.

        Raises:
            Abandoned: a stop was requested.
        """
        with suppress(BrokenPipeError):
            os.write(self.starting, b"1")
        try:
            found = self._wait(stop, time.monotonic() + seconds)
        finally:
            code = self.end()
        return found, code

    def end(self) -> int:
        """End it, unless it has ended, and all that descend from it; return its exit code (negative: a signal)."""
        os.close(self.reading)
        os.close(self.starting)
        with suppress(psutil.Error):
            for process in psutil.Process(self.pid).children(recursive=True):
                with suppress(psutil.Error):
                    process.kill()
        os.kill(self.pid, signal.SIGKILL)  # a fork that has ended keeps its id and exit code until it is waited for
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _wait(self, stop: StopRequest, until: float) -> dict[str, Any] | None:
        received = bytearray()
        while True:
            if stop.asked:
                raise Abandoned
            has_ended = self._has_ended()  # asked first: what it wrote before it ended is there by now
            ready, _, _ = select.select([self.reading], [], [], POLL_SECONDS)
            part = os.read(self.reading, 1 << 16) if ready else b""
            received += part
            if received.endswith(b"\n") or len(received) > MAX_BYTES:
                break
            if (not part and (ready or has_ended)) or time.monotonic() > until:
                return None
        try:
            answer = json.loads(received)
        except (ValueError, RecursionError):
            return None
        return answer if isinstance(answer, dict) else None

    def _has_ended(self) -> bool:
        try:
            return bool(
                psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
            )  # macOS: no waitid before Python 3.13
        except psutil.Error:
            return True


def _be(work: Callable[[Say], None], writing: int, waiting: int, parent: int) -> NoReturn:
    """Be the fork: wait to be told, do the work, and end."""
    code = 1
    try:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        die_with(parent)
        if os.read(waiting, 1):
            work(lambda answer: _say(writing, answer))
        code = 0
    finally:
        guard.exit_now(code)


def _say(writing: int, answer: dict[str, Any]) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # user code may have replaced or closed it
            stream.flush()
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[os.write(writing, data) :]
