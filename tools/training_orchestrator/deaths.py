"""Deaths of workers that left no last record: whether anything tells that a run ended itself.

A signal from outside, a machine that stops, or a server that ends with what it started say nothing about the run. What
does say something is recorded by the worker's parent, the only one that knows: a signal by which the kernel answers a
fault of the process itself, memory that ran out, or an exit that the worker's own code never makes.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from trainwright.trainer.base.exits import Exit, read_exit
from trainwright.trainer.checkpoints.index import list_checkpoints

if TYPE_CHECKING:
    from trainwright.tools.launchers import Launch
    from trainwright.tools.training_orchestrator.observation import Observation
    from trainwright.trainer.run import RunDirectory

FAULTS = frozenset({
    signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGTRAP,
})  # fmt: skip
"""Signals that a process gets for what it does itself."""
REFUSED = 2
"""Exit code of a worker that never began: it got no key, or its server ended."""
OUTSIDE, ITSELF, STALLED = "outside", "itself", "stalled"
WRITING_SECONDS, POLL_SECONDS = 1.0, 0.02
"""How long the parent of a dead worker has to record how it ended; it takes hundredths of a second."""


class Death(BaseModel):
    """One death, as the ledger keeps it with the resuming that followed."""

    model_config = ConfigDict(frozen=True)

    by: str
    """outside, itself, or stalled: it was ended here because it made no step any more."""
    why: str
    saved_step: int
    """Step of the newest checkpoint that it left, to which all later attempts go back; -1: it left none."""


def death_of(directory: RunDirectory, seen: Observation) -> Death:
    """Return how a run's worker died that is gone without a last record; waits a moment for its parent's word."""
    saved = max((record.step for record in list_checkpoints(directory)), default=-1)
    if seen.status.stop_reason == STALLED:
        return Death(by=STALLED, why="it made no step any more", saved_step=saved)
    fault = fault_of(_exit_of(directory, seen.launch))
    why = fault or "it was ended from outside, or with its machine"
    return Death(by=OUTSIDE if fault is None else ITSELF, why=why, saved_step=saved)


def fault_of(end: Exit | None) -> str | None:
    """Return what a process did that ended it; None where nothing tells that it ended itself."""
    if end is None or end.code == REFUSED:
        return None
    if end.code >= 0:
        return f"it ended with exit code {end.code} and no last record"
    number = -end.code
    if number in FAULTS:
        return f"it ended with {signal.Signals(number).name}"
    if number == signal.SIGKILL and end.took_memory:
        return "the kernel ended it for want of memory"
    return None


def _exit_of(directory: RunDirectory, launch: Launch) -> Exit | None:
    """Return the record of the latest launch's end; None where its parent left none."""
    process, deadline = launch.process, time.monotonic() + WRITING_SECONDS
    while process is not None:
        end = read_exit(directory.path)
        if end is not None and end.pid == process.pid and end.at >= launch.launched_at:
            return end
        is_coming = process.is_alive() or (launch.parent is not None and launch.parent.is_alive())
        if not is_coming or time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)
    return None
