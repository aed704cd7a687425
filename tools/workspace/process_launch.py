"""Processes that outlive the server: how they are started, and the record of each start (`launch.json`)."""

from __future__ import annotations

import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainwright.trainer.base.traces import note_fleeting
from trainwright.trainer.run import ProcessIdentity, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LAUNCH = "launch.json"
UNCLAIMED_SECONDS = 30.0
"""After this long a start whose process is not known counts as lost: the server died before it got that far."""


class Launch(BaseModel):
    """The latest attempt to start a process on a folder."""

    model_config = ConfigDict(frozen=True)

    attempt: int = 1
    """What the process will write as its own attempt once it begins; one that never began leaves it to the next."""
    launched_at: float = Field(default_factory=time.time)
    """Unix seconds."""
    process: ProcessIdentity | None = None
    """None until the process exists: written in the transaction that orders the start, completed after it."""
    awaited: bool = False
    """An outer launcher (torchrun, a cluster's scheduler) will start the processes; nobody here knows when."""
    error: str | None = None
    """Why the process could not be started."""
    former: Launch | None = None
    """What stood here before a resuming that has not told the worker anything yet: put back if it comes to nothing."""

    def may_still_begin(self) -> bool:
        """Return whether a process that has not taken its lock yet may still do so."""
        if self.error is not None:
            return False
        if self.awaited:
            return True
        if self.process is not None:
            return self.process.is_alive()
        note_fleeting()
        return time.time() - self.launched_at < UNCLAIMED_SECONDS


def read_launch(folder: Path) -> Launch | None:
    """Return the latest launch on a folder, or None when there is no readable record of one."""
    try:
        return Launch.model_validate_json((folder / LAUNCH).read_bytes())
    except (OSError, ValidationError):
        return None


def write_launch(folder: Path, launch: Launch) -> Launch:
    """Record a launch. Raises StorageError."""
    write_atomically(folder / LAUNCH, launch.model_dump_json().encode())
    return launch


def spawn(
    folder: Path,
    launch: Launch,
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: str,
    told: bytes = b"",
) -> Launch:
    """Start a process that outlives this one, and record it in the folder; a failure is recorded, not raised.

    The process has a session of its own, finds on its standard input what it is `told` (less than a pipe holds) and
    nothing else, and appends what it prints to `folder/log`.
    A thread waits for it, so that it leaves no zombie in a long-lived server.
    """
    try:
        with (folder / log).open("ab") as output:
            child = subprocess.Popen(
                list(command),
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.PIPE if told else subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                close_fds=True,
            )
    except OSError as error:
        return write_launch(folder, launch.model_copy(update={"error": f"{type(error).__name__}: {error}"}))
    identity = ProcessIdentity.of(child.pid)  # before anyone reaps it, so the id is surely still its own
    if child.stdin is not None:
        with suppress(BrokenPipeError), child.stdin as pipe:  # it may have ended already
            pipe.write(told)
    threading.Thread(target=child.wait, name=f"reaper-{child.pid}", daemon=True).start()
    return write_launch(folder, launch.model_copy(update={"process": identity}))
