"""Launcher: the interface of starting runs' workers, and the record of each start (`launch.json`)."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainwright.tools.launchers.environment import Gpu
from trainwright.trainer.run import ProcessIdentity, RunDirectory, RunKey, write_atomically

LAUNCH = "launch.json"


class Launch(BaseModel):
    """The latest attempt to start a process on a folder, and all that a later server knows it by."""

    model_config = ConfigDict(frozen=True)

    attempt: int = 1
    """What the process will write as its own attempt once it begins; one that never began leaves it to the next."""
    launched_at: float = Field(default_factory=time.time)
    """Unix seconds."""
    launcher: str = "own"
    """Name of the launcher that has it in hand."""
    process: ProcessIdentity | None = None
    """None until the process exists: written in the transaction that orders the start, completed after it."""
    parent: ProcessIdentity | None = None
    """The warm process that it was forked off; None: it started as a process of its own."""
    job: str | None = None
    """What the launcher calls what it has started, where that is no process of this machine."""
    gpus: tuple[Gpu, ...] = ()
    """Those that the worker is shown, alone; empty: whatever this machine shows its processes, or `hides_gpus`."""
    hides_gpus: bool = False
    """Whether the worker is shown no GPU at all."""
    runs_per_gpu: int = 1
    """With how many like it the run shares each of them, itself counted."""
    error: str | None = None
    """Why the process could not be started."""
    reached: int = 0
    """Of a study's conductor: how much of the study had ended when it was started."""
    former: Launch | None = None
    """What stood here before a resuming that has not told the worker anything yet: put back if it fails."""

    @property
    def is_known(self) -> bool:
        """Whether something was started that the launcher can name."""
        return self.process is not None or self.job is not None


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


class Launcher(Protocol):
    """One way of starting a run's worker, and of reaching it from whichever server asks later.

    Once the worker holds the run's lock, its directory says everything, under each launcher alike.

    Attributes:
        name: what `distributed.launcher` and the record of a launch call it.
        gives_key: whether it hands the run's secret key to the worker; the owner must allow one that does not.
        is_here: whether the worker works with this machine's devices.
    """

    name: str
    gives_key: bool
    is_here: bool

    def start(self, run: RunDirectory, launch: Launch, key: RunKey) -> Launch:
        """Start the worker of a run whose row and folder stand, and record how it is known from now on.

        A failure becomes the record's error and is not raised. Raises StorageError if nothing can be recorded.
        """

    def may_begin(self, launch: Launch) -> bool:
        """Return whether a worker that has not taken the run's lock yet may still do so."""

    def signal(self, run: RunDirectory, launch: Launch, number: signal.Signals, *, reason: str) -> bool:
        """Write why the run is to end, and pass the signal on to its worker; return whether it could be reached.

        SIGTERM asks for an orderly end, and SIGKILL ends every process of the run that can be reached. What has not
        begun is withdrawn.

        Args:
            run: the run's directory.
            launch: the latest, with the worker's process where the worker has recorded one.
            number: SIGTERM or SIGKILL.
            reason: for the worker, which reads it, and for the run's record.
        """
