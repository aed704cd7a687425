"""Ranks of a run on one machine: the leader of the processes, and null writers above rank 0.

It is the run's worker process: it holds the lock and takes the signals, and imports no torch. It forks one process
for each rank, so all are in one session and process group (torchrun's ranks have separate sessions and outlive
their agent). None outlives the leader: the kernel kills them with it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from trainwright.trainer.engine.observers.checkpointing import Checkpointing
from trainwright.trainer.engine.session import Session
from trainwright.trainer.run import Event, Failure, RunDirectory
from trainwright.trainer.run.evidence import Part
from trainwright.trainer.run.rank import LOST_PEER, Failures, Placement

GRACE_SECONDS = 10.0
"""How long the others may take to end by themselves after one has ended in order."""
POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1

Work = Callable[[Placement, int], int]
"""Work of a process: given its placement and the attempt's number, returns its exit code."""


class Leader:
    """Leads the processes of one run until the run has ended or cannot go on.

    Attributes:
        asked: whether a signal requested the end; it is passed to every process.
    """

    def __init__(
        self, run: RunDirectory, processes: int, *, work: Work, leave: Callable[[int], NoReturn], held: IO[bytes]
    ) -> None:
        self.run, self.processes, self.work, self.leave = run, processes, work, leave
        self.lock = os.dup(held.fileno())
        """Shared with rank 0, which writes: the run is free only when both are gone."""
        self.ranks: dict[int, int] = {}
        """Rank of each living process by its id."""
        self.asked = False

    def lead(self, attempt: int, restarts: int, fail: Callable[[int, Failure], None]) -> int:
        """Work on the run, with up to `restarts` new starts after a process was killed; return the exit code.

        Args:
            attempt: number of the first start.
            fail: writes the run's last record for the failure of a process other than rank 0, given the attempt.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hand_on)
        for start in range(restarts + 1):
            codes = self._work_once(attempt + start)
            if codes[0] in {0, 1, 2}:
                return codes[0]  # it has written the last record itself
            reported = Failures(self.run.path).first() if 1 in codes.values() else None
            if reported is not None:
                fail(attempt + start, reported[1])
                return 1
            lost = {str(rank): code for rank, code in sorted(codes.items()) if code != LOST_PEER}
            if self.asked:
                return 1
            if start < restarts:
                self.run.append_event(
                    "restarted", attempt=attempt + start + 1, lost=lost, restarts_left=restarts - start - 1
                )
        self.run.append_event("note", text=f"The group lost a process {restarts + 1} times and was not started again.")
        return 1

    def _work_once(self, attempt: int) -> dict[int, int]:
        """Start every rank, wait for all, and return their exit codes (negative: the signal) by rank."""
        folder = Path(tempfile.mkdtemp(prefix="trainwright-"))
        codes: dict[int, int] = {}
        try:
            for rank in range(self.processes):
                Failures(self.run.path).clear(rank)
                store = str(folder / "store")
                self._start(Placement(rank, self.processes, rank, self.processes, store), attempt)
            if self.asked:  # while no process was there to be signalled
                self._signal_all(signal.SIGTERM)
            self._wait(codes)
        finally:
            self._signal_all(signal.SIGKILL)
            self._wait(codes)
            shutil.rmtree(folder, ignore_errors=True)
        return codes

    def _wait(self, codes: dict[int, int]) -> None:
        """Collect exit codes; the first end that is not the group's ends the rest, after a time where in order."""
        deadline: float | None = None
        while self.ranks:
            pid, status = os.waitpid(-1, os.WNOHANG if deadline is not None else 0)
            if pid == 0:
                if deadline is not None and time.monotonic() > deadline:
                    self._signal_all(signal.SIGKILL)
                time.sleep(POLL_SECONDS)
                continue
            rank = self.ranks.pop(pid, None)
            if rank is None:
                continue
            code = codes[rank] = os.waitstatus_to_exitcode(status)
            in_order = (code in {1, LOST_PEER} and rank != 0) or code in {0, LOST_PEER}
            if not in_order:
                self._signal_all(signal.SIGKILL)
            elif (code != 0 or rank == 0) and deadline is None:
                deadline = time.monotonic() + GRACE_SECONDS

    def _start(self, placement: Placement, attempt: int) -> None:
        leader = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        pid = os.fork()
        if pid:
            self.ranks[pid] = placement.rank
            return
        code = 70
        try:
            self.ranks.clear()
            die_with(leader)
            os.environ.update(placement.as_environment())
            if placement.is_first:
                os.register_at_fork(after_in_child=lambda: os.close(self.lock))
            else:
                os.close(self.lock)
            code = self.work(placement, attempt)
        finally:
            self.leave(code)

    def _hand_on(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in list(self.ranks):  # not waited for yet, so the ids are surely still theirs
            os.kill(pid, number)


def die_with(leader: int) -> None:
    """End this process when its leader does, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(leader,), name="leader-watch", daemon=True).start()
    if os.getppid() != leader:  # it was gone before prctl was called
        os.kill(os.getpid(), signal.SIGKILL)


def _watch(leader: int) -> None:
    while os.getppid() == leader:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGKILL)


class SilentRun(RunDirectory):
    """A run directory that is read and never written to; evidence is kept in memory."""

    def __init__(self, run: RunDirectory) -> None:
        super().__init__(run.path)
        self._kept: dict[str, dict[str, Any]] = {}

    def append_event(self, kind: str, **data: Any) -> Event:
        """Return the event, which is not read."""
        return Event(time=0.0, kind=kind, data=data)

    def write_evidence(self, part: Part) -> None:
        """Keep this process's evidence."""
        self._kept[part.file] = part.as_dict()

    def evidence(self, name: str) -> dict[str, Any] | None:
        """Return this process's evidence."""
        return self._kept.get(name)

    def metrics(self, *, writer: bool = False) -> Any:
        """Return a store that takes everything and keeps nothing; the real one to read from."""
        return _SilentStore() if writer else super().metrics()


class _SilentStore:
    def forget_after(self, step: int) -> None: ...

    def series(self, _key: str) -> list[Any]:
        return []

    def write(self, rows: Any) -> None: ...

    def close(self) -> None: ...


class SilentHeartbeat:
    """Takes the place of the heartbeat: the first process beats for all."""

    step = 0

    def set(self, **values: Any) -> None:
        """Say nothing."""

    def stage(self, stage: str) -> None:
        """Say nothing."""

    def begin_user_code(self) -> None:
        """Say nothing."""

    def end_user_code(self) -> None:
        """Say nothing."""


class SilentCheckpointing(Checkpointing):
    """Takes part in gathering the state, and leaves the writing to the first process."""

    def start(self, session: Session) -> None:
        """Note the resumed position."""
        progress = session.progress
        if progress.step:
            self.saved = (progress.epoch, progress.batch)

    def save(self, session: Session) -> None:
        """Hand this process's part of the state over."""
        session.state()
        self.saved = (session.progress.epoch, session.progress.batch)
