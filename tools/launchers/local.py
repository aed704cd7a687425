"""Local launcher: a process of this machine that outlives the server."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from trainwright.tools.launchers.environment import command_of, has_credentials, worker_environment
from trainwright.tools.launchers.launcher import Launch, write_launch
from trainwright.tools.launchers.warm import Fork, Kind, WarmProcesses
from trainwright.tools.launchers.worker_wall import order_for, variables
from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.catalog.first_modules import first_modules
from trainwright.trainer.run import ProcessIdentity, RunDirectory, RunKey, RunSpecification, write_atomically
from trainwright.trainer.run.rank import processes_of
from trainwright.trainer.starting import handover

WORKER = "trainwright.trainer.starting.handover"
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
    asks: bool = True,
    ended: Callable[[int], object] = lambda _: None,
) -> Launch:
    """Start a process that outlives this one, and record it in the folder; a failure is recorded, not raised.

    The process has a session of its own, and appends what it prints to `folder/log`. Its standard input is empty, or
    a socket through which it is given `seed` when it requests it, or a pipe that holds it where it cannot ask. Threads
    wait for that and for its end, so that it leaves no zombie in a long-lived server; `ended` is told its exit code.
    """
    ours, theirs = handover.channel() if seed and asks else (None, None)
    given = subprocess.DEVNULL if theirs is None else theirs.fileno()
    try:
        with (folder / log).open("ab") as output:
            child = subprocess.Popen(
                list(command),
                cwd=cwd,
                env=dict(env),
                stdin=given if asks else subprocess.PIPE,
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
    threading.Thread(target=lambda: ended(child.wait()), name=f"reaper-{child.pid}", daemon=True).start()
    try:
        written = write_launch(folder, launch.model_copy(update={"process": identity}))
    except BaseException:  # without its key it ends, and works in no run that is not recorded
        for end in (ours, child.stdin):
            if end is not None:
                end.close()
        raise
    if ours is not None and seed:
        attend(ours, child.pid, seed)
    if child.stdin is not None:
        with suppress(OSError), child.stdin as pipe:
            pipe.write(seed)
    return written


def attend(end: socket.socket, worker: int, seed: bytes) -> None:
    """Answer the worker's request: wait a little for it, and leave one that is late to a thread."""
    end.settimeout(UNCLAIMED_SECONDS)
    answering = threading.Thread(target=handover.answer, args=(end, worker, seed), name=f"key-{worker}")
    answering.start()
    answering.join(WAIT_SECONDS)


def _begun(folder: Path, launch: Launch, fork: Fork, seed: bytes) -> Launch:
    """Record a fork as the run's worker, and only then let it go: unrecorded it ends. Raises StorageError."""
    try:
        written = write_launch(folder, launch.model_copy(update={"process": fork.identity, "parent": fork.parent}))
    except BaseException:
        fork.channel.close()
        raise
    attend(fork.let_go(), fork.identity.pid, seed)
    return written


def _has_begun(run: RunDirectory, launch: Launch) -> bool:
    """Return whether the run's worker has made its imports, or has ended, or its folder is gone."""
    try:
        status = run.last_status()
    except NotFoundError:
        return True
    is_alive = launch.process is not None and launch.process.is_alive()
    return not is_alive or (status.attempt >= launch.attempt and bool(status.stage))


def kind_of(specification: RunSpecification, env: Mapping[str, str]) -> Kind:
    """Return which warm process the run may be forked off."""
    config = specification.config
    modules = first_modules(config.data, config.model, tensorboard=config.logging.tensorboard)
    return Kind({**env, **variables(specification, env)}, modules, specification.runtime)


class Local:
    """Starts the worker as a detached process, and gives it its key when it requests it."""

    name = "own"
    gives_key = True
    is_here = True
    spawn = staticmethod(spawn)
    warm = WarmProcesses()

    def start(self, run: RunDirectory, launch: Launch, key: RunKey) -> Launch:
        """Start the worker in the project's code root; this process's memory is hidden too. Raises StorageError."""
        handover.hide_memory()
        specification = run.specification()
        root = Path(specification.code_root)
        env = worker_environment(
            specification.config, specification.connections, launch.gpus, hides_gpus=launch.hides_gpus,
            runtime=specification.runtime,
        )  # fmt: skip
        may_be_warm = not has_credentials(specification.config, specification.connections)
        may_be_warm &= processes_of(specification) == 1
        order = order_for(run.path, specification, env)
        kind = kind_of(specification, env)
        fork = self.warm.fork(kind, run=run.path, cwd=root, log=run.log, order=order) if may_be_warm else None
        if fork is not None:
            return _begun(run.path, launch, fork, key.seed)
        command = command_of(specification.runtime, WORKER, str(run.path), order=order)
        asks = specification.runtime is None or specification.runtime.container is None
        written = self.spawn(run.path, launch, command, cwd=root, env=env, log=run.log.name, seed=key.seed, asks=asks)
        if may_be_warm and written.error is None:
            self.warm.prepare(kind, lambda: _has_begun(run, written))
        return written

    def may_begin(self, launch: Launch) -> bool:
        """Return whether the process lives; one that is not known yet is waited for half a minute."""
        if launch.process is not None:
            return launch.process.is_alive()
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
