"""Warm processes of this server or conductor: started beside the first run of an environment, asked to fork the next.

Where many runs follow, the first waits for its start too: a library is imported once, not by each of those side by
side. A run's start never depends on one: where none is ready, or none answers in time, the run starts cold. A fork
begins only when it is told so here, after its process has been recorded, so that there are never two workers.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from trainwright.tools.launchers.environment import command_of
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.run import ProcessIdentity
from trainwright.trainer.run.runtime import Runtime
from trainwright.trainer.starting import handover

ANSWER_SECONDS = 2.0
"""How long a fork is waited for; it takes hundredths of a second."""
IMPORT_SECONDS = 120.0
POLL_SECONDS, AWAITED_POLL_SECONDS = 0.1, 0.01
AWAITED_SECONDS = 20.0
"""How long the first runs of many wait for one."""
MAX_BYTES = 400 << 20
"""Of memory of its own, which one may hold."""
FREE_BYTES = 4 * MAX_BYTES
"""Memory that has to be free before one is started."""
READY, BORN, GO = b"ready", b"!", b"+"
COLD = ("PYTHONPATH", "COVERAGE_")
"""Beginnings of variables under which user code, or a measurement, runs before a worker does: those start cold."""


class WarmLimits(NamedTuple):
    """What the workspace's owner allows."""

    folder: Path
    """Of the files that count them."""
    most: int
    idle_seconds: float


class Kind(NamedTuple):
    """What the forks of a warm process have in common."""

    env: Mapping[str, str]
    modules: Sequence[str] = ()
    """Of other libraries, which the configured parts need first (trainer/catalog/first_modules.py)."""
    runtime: Runtime | None = None


class Fork(NamedTuple):
    """A fork that waits to be let go, or to end when its channel does."""

    identity: ProcessIdentity
    parent: ProcessIdentity
    """The warm process."""
    channel: socket.socket

    def let_go(self) -> socket.socket:
        """Let it be the run's worker; return the end of the channel by which it requests its key."""
        with suppress(OSError):
            self.channel.send(GO)
        return self.channel


@dataclass
class _Warm:
    """One warm process, or the start of one."""

    child: subprocess.Popen[bytes]
    asking: socket.socket
    process: ProcessIdentity | None = None
    """The one that forks, a child of `child`; None until it is ready."""

    def end(self) -> None:
        """End it; its forks go on."""
        self.asking.close()
        self.child.kill()  # the kernel ends the other with it


class WarmProcesses:
    """The warm processes that this process started, by what their forks would have in common."""

    def __init__(self) -> None:
        self.limits: WarmLimits | None = None
        self.are_awaited = False
        """Whether a run waits for one that is not ready, as the first of many."""
        self._late: set[str] = set()
        """Those that were awaited in vain."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Warm] = OrderedDict()
        atexit.register(self.close)  # sooner than by the end of their sockets, which one that imports does not see

    def fork(
        self, kind: Kind, *, run: Path, cwd: Path, log: Path, order: Mapping[str, Any] | None = None
    ) -> Fork | None:
        """Return a fork for the run, behind the wall that is ordered; None where it has to start cold."""
        if not self._serves(kind):
            return None
        key = _key(kind)
        if self.are_awaited:
            self._await(key, kind)
        with self._lock:
            warm = self._kept.get(key)
            if warm is None or warm.process is None:
                return None
            self._kept.move_to_end(key)
            wanted = {"run": str(run), "cwd": str(cwd), "wall": order}
            found = _forked(warm, warm.process, wanted, log)
            if found is None:
                self._drop(key)
            return found

    def prepare(self, kind: Kind, has_begun: Callable[[], bool]) -> None:
        """Start one for the next runs of such a kind, in the background, unless there is one.

        Args:
            has_begun: whether the run that starts cold has made its imports, which is waited for.
        """
        if self._serves(kind) and self.limits is not None:
            self._start(_key(kind), kind, has_begun)

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            for key in list(self._kept):
                self._drop(key)

    def is_ready(self, kind: Kind) -> bool:
        """Return whether a run of such a kind would start warm."""
        if not self._serves(kind):
            return False
        with self._lock:
            warm = self._kept.get(_key(kind))
            return warm is not None and warm.process is not None

    def processes(self) -> list[ProcessIdentity]:
        """Return those that are ready, the least recently used first."""
        with self._lock:
            return [warm.process for warm in self._kept.values() if warm.process is not None]

    def _serves(self, kind: Kind) -> bool:
        limits = self.limits
        return (
            sys.platform == "linux"
            and limits is not None
            and limits.most > 0
            and (kind.runtime is None or kind.runtime.container is None)  # no engine passes a socket on
            and not any(name.startswith(COLD) for name in kind.env)
        )

    def _start(self, key: str, kind: Kind, has_begun: Callable[[], bool]) -> threading.Thread:
        starting = threading.Thread(
            target=self._keep, args=(key, kind, self.limits, has_begun), name="warm", daemon=True
        )
        starting.start()
        return starting

    def _await(self, key: str, kind: Kind) -> None:
        """Start one unless there is one, and return when it is ready, or when none comes: memory is short, say.

        One that takes longer is not waited for, this time and later: a run that nobody claims for long is given up.
        """
        if key in self._late:
            return
        starting = self._start(key, kind, lambda: True)
        deadline = time.monotonic() + AWAITED_SECONDS
        while time.monotonic() < deadline:
            with self._lock:
                warm = self._kept.get(key)
            if warm is not None and warm.process is not None:
                return
            if warm is None and not starting.is_alive():
                break
            time.sleep(AWAITED_POLL_SECONDS)
        self._late.add(key)

    def _drop(self, key: str) -> None:
        self._kept.pop(key).end()

    def _keep(self, key: str, kind: Kind, limits: WarmLimits, has_begun: Callable[[], bool]) -> None:
        """Start one, note when it is ready, and forget it once it has ended, leaving no zombie."""
        deadline = time.monotonic() + IMPORT_SECONDS
        while not has_begun() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        with self._lock:
            if key in self._kept or free_bytes() < FREE_BYTES:
                return
            if not self._make_place(limits.most):
                return
            try:
                warm = self._kept[key] = _started(kind, limits)
            except OSError:
                return
        process = _greeted(warm)
        with self._lock:
            if process is not None and self._kept.get(key) is warm:
                warm.process = process
            elif process is None:
                warm.child.kill()
        warm.child.wait()
        with self._lock:
            if self._kept.get(key) is warm:
                self._drop(key)

    def _make_place(self, most: int) -> bool:
        """End those least recently used until another may be kept; False where all that are left still import.

        Those would be imported for nothing, again and again, by runs in more environments than there may be processes.
        """
        while len(self._kept) >= most:
            ready = next((key for key, warm in self._kept.items() if warm.process is not None), None)
            if ready is None:
                return False
            self._drop(ready)
        return True


def free_bytes() -> int:
    """Return the memory that this machine, or the group of processes that this one is in, has left."""
    free = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        cached = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        used = int((group / "memory.current").read_text()) - int(cached["inactive_file"])
        free = min(free, int((group / "memory.max").read_text()) - used)
    return free


def _key(kind: Kind) -> str:
    """Return the digest of all that a process has from its start, and a fork from its parent.

    Libraries are no part of it: the warm process compares the files that it loaded before each fork.
    """
    names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
    own = Path("/proc/self")
    umask = [line for line in (own / "status").read_text().splitlines() if line.startswith(("Umask:", "SigIgn:"))]
    return digest_json({
        "environment": dict(kind.env),
        "modules": kind.modules,
        "interpreter": [sys.executable, os.path.realpath(sys.executable), sys.version],
        "runtime": None if kind.runtime is None else kind.runtime.model_dump(),
        "limits": [resource.getrlimit(getattr(resource, name)) for name in names],
        "cores": sorted(os.sched_getaffinity(0)),
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "group": (own / "cgroup").read_text(),
        "masks": umask,
    })  # fmt: skip


def _started(kind: Kind, limits: WarmLimits) -> _Warm:
    """Start one. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    settings = [str(limits.folder), str(limits.most), str(limits.idle_seconds), str(MAX_BYTES)]
    try:
        child = subprocess.Popen(
            command_of(kind.runtime, handover.__name__, handover.WARM, *settings, *kind.modules),
            cwd="/",
            env=dict(kind.env),
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            close_fds=True,
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return _Warm(child, ours)


def _greeted(warm: _Warm) -> ProcessIdentity | None:
    """Return the process that says it is ready, and ask it through the socket that it brings; None: there is none.

    Nobody but a child of what was started is heard: others may hold a copy of the socket that it was started with.
    """
    deadline = time.monotonic() + IMPORT_SECONDS
    with suppress(OSError, psutil.Error):
        while (seconds := deadline - time.monotonic()) > 0:
            warm.asking.settimeout(seconds)
            said, sender, brought = handover.heard(warm.asking)
            if not said:
                return None
            if not sender or psutil.Process(sender).ppid() != warm.child.pid:
                if brought is not None:
                    brought.close()
                continue
            if said != READY or brought is None:
                return None
            process = ProcessIdentity.of(sender)
            warm.asking.close()
            warm.asking = brought
            return process
    return None


def _forked(warm: _Warm, process: ProcessIdentity, wanted: Mapping[str, Any], log: Path) -> Fork | None:
    """Ask for a fork; None where none answers in time that is a child of the warm process."""
    ours, theirs = handover.channel()
    try:
        with theirs, log.open("ab") as output:
            warm.asking.settimeout(ANSWER_SECONDS)
            socket.send_fds(warm.asking, [json.dumps(wanted).encode()], [theirs.fileno(), output.fileno()])
        ours.settimeout(ANSWER_SECONDS)
        said, sender, _ = handover.heard(ours)
        if said == BORN and process.is_alive() and psutil.Process(sender).ppid() == process.pid:
            return Fork(ProcessIdentity.of(sender), process, ours)
    except (OSError, psutil.Error):
        pass
    ours.close()
    return None
