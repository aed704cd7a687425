"""Local launcher: a process of this machine that outlives the server."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.tools.launchers.environment import worker_environment
from trainwright.tools.launchers.launcher import Launch, write_launch
from trainwright.trainer import handover
from trainwright.trainer.base.traces import note_fleeting
from trainwright.trainer.run import ProcessIdentity, write_atomically

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

    from trainwright.trainer.run import RunDirectory, RunKey

WORKER = "trainwright.trainer.handover"
WAIT_SECONDS = 5.0
"""How long a start waits for the worker's request, which takes a tenth of a second, so that it survives this server."""
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
    seed: bytes = b"",
) -> Launch:
    """Start a process that outlives this one, and record it in the folder; a failure is recorded, not raised.

    The process has a session of its own, and appends what it prints to `folder/log`. Its standard input is empty, or
    a socket through which it is given `seed` when it requests it. Threads wait for
    that and for its end, so that it leaves no zombie in a long-lived server.
    """
    ours, theirs = handover.channel() if seed else (None, None)
    try:
        with (folder / log).open("ab") as output:
            child = subprocess.Popen(
                list(command),
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL if theirs is None else theirs.fileno(),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                close_fds=True,
            )
    except OSError as error:
        if ours is not None:
            ours.close()
        return write_launch(folder, launch.model_copy(update={"error": f"{type(error).__name__}: {error}"}))
    finally:
        if theirs is not None:
            theirs.close()
    identity = ProcessIdentity.of(child.pid)  # before anyone reaps it, so the id is surely still its own
    threading.Thread(target=child.wait, name=f"reaper-{child.pid}", daemon=True).start()
    written = write_launch(folder, launch.model_copy(update={"process": identity}))
    if ours is not None and seed:
        attend(ours, child.pid, seed)
    return written


def attend(end: socket.socket, worker: int, seed: bytes) -> None:
    """Answer the worker's request: wait a little for it, and leave one that is late to a thread."""
    end.settimeout(UNCLAIMED_SECONDS)
    answering = threading.Thread(target=handover.answer, args=(end, worker, seed), name=f"key-{worker}")
    answering.start()
    answering.join(WAIT_SECONDS)


class Local:
    """Starts the worker as a detached process, and gives it its key when it requests it."""

    name = "own"
    gives_key = True
    is_here = True
    spawn = staticmethod(spawn)

    def start(self, run: RunDirectory, launch: Launch, key: RunKey) -> Launch:
        """Start the worker in the project's code root; this process's memory is hidden too. Raises StorageError."""
        handover.hide_memory()
        specification = run.specification()
        return self.spawn(
            run.path,
            launch,
            [sys.executable, "-P", "-m", WORKER, str(run.path)],
            cwd=Path(specification.code_root),
            env=worker_environment(specification.config, specification.connections),
            log=run.log.name,
            seed=key.seed,
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
