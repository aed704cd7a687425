"""Status and events of a run: status.json, replaced atomically; events.jsonl, append-only.

Kinds written by the worker: `started`, `resumed`, `probe`, `epoch`, `checkpoint`, `finding`, `alert`,
`alert_cleared`, `unjudged`, `note`, `stopping`,
`failed`, `ended`, `restarted`. A torn last line (the writer was killed) is expected and passed over.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import psutil
from blake3 import blake3
from pydantic import BaseModel, ConfigDict, Field

from trainwright.trainer.base.records import Frozen

# Identity of the process of a record. A bare process id misleads: ids are reused and zombies keep theirs.


class ProcessIdentity(Frozen):
    """A process id with its start time and the machine's boot, enough to signal the right process or none."""

    pid: int
    started_at: float
    """Unix seconds, from the kernel."""
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> Self:
        """Describe a living process. Raises psutil.NoSuchProcess."""
        return cls(pid=pid, started_at=psutil.Process(pid).create_time(), boot_id=boot_id())

    @classmethod
    def current(cls) -> Self:
        """Describe this process."""
        return cls.of(os.getpid())

    def is_alive(self) -> bool:
        """Return whether this very process still runs (zombies do not count). For signalling, not for liveness."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started_at) < 2.0 and self.boot_id == boot_id()
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def send_signal(self, number: signal.Signals) -> bool:
        """Signal the process if it is still the same one; return whether a signal was sent."""
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the process has ended where the kernel tells that."""
        deadline = time.monotonic() + seconds
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                process = os.pidfd_open(self.pid)
                try:
                    if self.is_alive():  # opened by its id, which another may have by now
                        select.select([process], [], [], seconds)
                        return
                finally:
                    os.close(process)
        time.sleep(max(0.0, deadline - time.monotonic()))

    def kill_tree(self) -> None:
        """Kill the process, all that descend from it, and the group that it leads: ranks, loader workers, and theirs.

        Called by one of them, it does not return.
        """
        if not self.is_alive():
            return
        with suppress(psutil.Error):
            for child in psutil.Process(self.pid).children(recursive=True):
                if child.pid != os.getpid():
                    with suppress(psutil.Error):
                        child.kill()
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal.SIGKILL)
            os.kill(self.pid, signal.SIGKILL)


def boot_id() -> str:
    """Return a text that changes with every boot (the kernel's where there is one)."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else f"boot-{psutil.boot_time():.0f}"


class RunState(StrEnum):
    """The life of a run. `interrupted` is never written: readers find it when the lock is free too early."""

    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"
    """Ended on request or at a limit, with a checkpoint; can be resumed."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """The process is gone and wrote no last record; can be resumed."""

    @property
    def is_terminal(self) -> bool:
        """Whether the worker wrote its last record."""
        return self in {RunState.COMPLETED, RunState.STOPPED, RunState.FAILED}

    @property
    def is_ended(self) -> bool:
        """Whether no process works on the run any more."""
        return self.is_terminal or self is RunState.INTERRUPTED


RUNG = "rung"
"""The stop reason of a run that was ordered to stop after an epoch: its search decides whether it goes on."""


class Failure(BaseModel):
    """Why a run failed: a TrainwrightError as JSON, with the last lines that matter."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    category: str
    message: str
    remedy: str
    document: str | None = None
    details: dict[str, Any] = {}
    traceback: str | None = None
    """The user's part of the traceback, at most 40 lines."""


class RunStatus(BaseModel):
    """One snapshot of a run."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    state: RunState
    attempt: int = 1
    """Counts the processes that have worked on the run: 1, then one more for each resume."""
    step: int = 0
    """Optimizer steps done."""
    total_steps: int | None = None
    epoch: int = 0
    """Epochs completed."""
    total_epochs: int | None = None
    stage: str = ""
    """Present activity of the worker: importing, probing, training, validating, saving, exporting."""
    stop_reason: str | None = None
    """completed, early_stopping, max_steps, requested, pruned, rung, wall_clock_limit, gpu_hours_limit,
    money_limit, disk_limit, or `alert: ` with the alert's id."""
    started_at: float = 0.0
    """Unix seconds at which this attempt began."""
    heartbeat_at: float = 0.0
    """Unix seconds of this record."""
    process: ProcessIdentity | None = None
    failure: Failure | None = None


class Event(Frozen):
    """One line of the log."""

    time: float
    """Unix seconds."""
    kind: str
    data: dict[str, Any] = Field(default_factory=dict)


class EventWriter:
    """Appends to one log, and computes its digest from the written lines, not from the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._hasher: Any = None
        self._process = 0
        """The one that the hasher belongs to: a fork continues from the content that its parent has written."""

    @property
    def digest(self) -> str:
        """Digest of the log; it must have been appended to."""
        return f"blake3:{self._hasher.hexdigest()}"

    def append(self, kind: str, data: dict[str, Any]) -> Event:
        """Append one event and return it; a torn line left by a killed writer is closed first. Raises OSError."""
        event = Event(time=time.time(), kind=kind, data=data)
        line = json.dumps(event.model_dump(), ensure_ascii=False, default=str).encode() + b"\n"
        with self._lock:  # the heartbeat's thread appends too
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                size = os.fstat(descriptor).st_size
                if self._process != os.getpid():
                    self._hasher, self._process = blake3(os.pread(descriptor, size, 0)), os.getpid()
                if size and os.pread(descriptor, 1, size - 1) != b"\n":
                    line = b"\n" + line
                self._hasher.update(line[: os.write(descriptor, line)])
            finally:
                os.close(descriptor)
        return event


def read_events(path: Path) -> list[Event]:
    """Return all complete events in order; an absent file reads as none, a torn line is skipped."""
    return read_log(path)[0]


def read_log(path: Path) -> tuple[list[Event], list[int]]:
    """Return all complete events in order, and the numbers of damaged lines, from 1.

    What a killed worker left unfinished is none of them: a last line without its end, or one before the next attempt.
    """
    events: list[Event] = []
    damaged: list[int] = []
    if not path.exists():
        return events, damaged
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            events.append(Event.model_validate_json(line))
        except ValueError:
            if line and number < len(lines):
                damaged.append(number)
            continue
        if events[-1].kind == "started" and damaged and damaged[-1] == number - 1:
            damaged.pop()
    return events, damaged
