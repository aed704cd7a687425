"""Outer launcher: torchrun, accelerate launch or a cluster's scheduler, which someone else starts on a waiting run."""

from __future__ import annotations

import signal

from trainwright.tools.launchers.launcher import Launch, write_launch
from trainwright.trainer.run import RunDirectory, RunKey, write_atomically

WITHDRAWN = "it was withdrawn before an outer launcher had started it"


class Outer:
    """Waits for processes that nobody here can name: they may be on other machines, and share the folder alone."""

    name = "outer"
    gives_key = False
    is_here = False

    def start(self, run: RunDirectory, launch: Launch, key: RunKey) -> Launch:  # noqa: ARG002 - no worker to give it to
        """Record that the run waits. Raises StorageError."""
        return write_launch(run.path, launch.model_copy(update={"launcher": self.name}))

    def may_begin(self, launch: Launch) -> bool:  # noqa: ARG002
        """Return True: nobody here knows when."""
        return True

    def signal(self, run: RunDirectory, launch: Launch, number: signal.Signals, *, reason: str) -> bool:  # noqa: ARG002
        """Write the reason, whose file the worker polls; withdraw a run that no worker has started."""
        if run.is_locked():
            write_atomically(run.stop_reason, reason.encode())
        elif run.last_status().attempt < launch.attempt:
            write_launch(run.path, launch.model_copy(update={"error": WITHDRAWN}))
        else:
            return False
        return True
