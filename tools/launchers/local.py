"""Local launcher: a process of this machine that outlives the server."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.tools.launchers.environment import worker_environment
from trainwright.tools.launchers.launcher import Launch, write_launch
from trainwright.trainer.base.traces import note_fleeting
from trainwright.trainer.run import ProcessIdentity, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainwright.trainer.run import RunDirectory, RunKey

WORKER = "trainwright.trainer.worker"
WITH_KEY = "--signed"
"""Tells the worker that its key comes by standard input."""
UNCLAIMED_SECONDS = 30.0
"""After this long a start whose process is not known counts as lost: the server died before it got that far."""


def spawn(
    folder: Path,
    launch: Launch,
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: str,
    stdin: bytes = b"",
) -> Launch:
    """Start a process that outlives this one, and record it in the folder; a failure is recorded, not raised.

    The process has a session of its own, finds `stdin` (less than a pipe holds) on its standard input and
    nothing else, and appends what it prints to `folder/log`.
    A thread waits for it, so that it leaves no zombie in a long-lived server.
    """
    try:
        with (folder / log).open("ab") as output:
            child = subprocess.Popen(
                list(command),
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
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
            pipe.write(stdin)
    threading.Thread(target=child.wait, name=f"reaper-{child.pid}", daemon=True).start()
    return write_launch(folder, launch.model_copy(update={"process": identity}))


class Local:
    """Starts the worker as a detached process, and hands it its key through a pipe."""

    name = "own"
    gives_key = True
    is_here = True
    spawn = staticmethod(spawn)

    def start(self, run: RunDirectory, launch: Launch, key: RunKey) -> Launch:
        """Start the worker in the project's code root. Raises StorageError."""
        specification = run.specification()
        return self.spawn(
            run.path,
            launch,
            [sys.executable, "-P", "-m", WORKER, str(run.path), WITH_KEY],
            cwd=Path(specification.code_root),
            env=worker_environment(specification.config),
            log=run.log.name,
            stdin=key.seed,
        )

    def may_begin(self, launch: Launch) -> bool:
        """Return whether the process lives; one that is not known yet is waited for half a minute."""
        if launch.process is not None:
            return launch.process.is_alive()
        note_fleeting()
        return time.time() - launch.launched_at < UNCLAIMED_SECONDS

    def signal(self, run: RunDirectory, launch: Launch, number: signal.Signals, *, reason: str) -> bool:
        """Signal the process, if it is still the very same one; SIGKILL goes to all that descend from it."""
        process = launch.process
        if process is None or not process.is_alive():
            return False
        write_atomically(run.stop_reason, reason.encode())
        if number is not signal.SIGKILL:
            return process.send_signal(number)
        process.kill_tree()
        return True
