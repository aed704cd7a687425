"""Signals to the process that works on a run, and to no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.training_orchestrator.observation import STOP_REASON, Observation
from trainwright.trainer.run import write_atomically

if TYPE_CHECKING:
    import signal

    from trainwright.trainer.run import ProcessIdentity, RunDirectory


def worker_of(seen: Observation) -> ProcessIdentity | None:
    """Return the process that works on the run, or is about to; None while it is not known."""
    is_recorded = seen.status.process is not None and seen.status.attempt >= seen.launch.attempt
    return seen.status.process if is_recorded else seen.launch.process


def signal_worker(directory: RunDirectory, seen: Observation, number: signal.Signals, *, reason: str) -> bool:
    """Signal the process that works on the run, if it is still the very same one; return whether it was.

    Of a run under an outer launcher the process may be on another machine: its worker looks for the reason's file.
    """
    if seen.launch.awaited and directory.is_locked():
        write_atomically(directory.path / STOP_REASON, reason.encode())
        return True
    process = worker_of(seen)
    if process is None or not process.is_alive():
        return False
    write_atomically(directory.path / STOP_REASON, reason.encode())
    return process.send_signal(number)
