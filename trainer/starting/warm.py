"""Warm process: one that has imported what every run imports, and forks a worker for each run that it is given.

`python -P -m trainwright.trainer.starting.handover --warm SLOTS MOST IDLE_SECONDS MAX_BYTES [MODULE ...]`, with the
environment that the runs are to have, and a socket to the process that started it as standard input: it has no address
that anyone else could connect to. It holds no user code, no data, no key and no thread; its memory is hidden from its
birth (`handover`). It ends when that socket does, when nobody asked for long, and when a file that it loaded has
changed. A fork gets descriptors, and the names of its folders, and nothing else: its environment is this process's own.
"""

from __future__ import annotations

import fcntl
import gc
import json
import multiprocessing
import os
import select
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

from pydantic import BaseModel

from trainwright.trainer.base.exits import memory_kills, record_exit
from trainwright.trainer.base.file_stamps import Stamp, stamp_of
from trainwright.trainer.starting import wall

MAX_BYTES = 1 << 16
"""Of a request."""
READY, BORN, GO = b"ready", b"!", b"+"
"""What is said: here of itself, by a fork on its run's channel, and by the launcher that has recorded that fork."""
NO_FILES = ("/dev/", "/memfd:", "/SYSV")
"""Beginnings of the names of mapped memory that comes from no file."""
REAP_SECONDS = 0.1
"""How often to look for forks that have ended."""
Stamps = dict[str, Stamp]


class _Fork(NamedTuple):
    """A worker that was forked off here."""

    run: Path
    kills: int
    """What the kernel had killed for want of memory when it began."""


def wait(slots: str, most: str, idle_seconds: str, most_bytes: str, *of_parts: str) -> None:
    """Import, then fork for each request until nobody asks any more. Returns in forks alone.

    Args:
        slots: folder of the files of which each such process of a workspace locks one.
        most: such processes of a workspace.
        idle_seconds: ends after so long without a request.
        most_bytes: of memory of its own.
        of_parts: modules that the configured parts of its forks need (`catalog/first_modules.py`).
    """
    began = time.time_ns()
    greeting = socket.socket(fileno=os.dup(0))
    _replace({0: os.open(os.devnull, os.O_RDONLY)})
    if (slot := _slot(Path(slots), int(most))) is None:
        _end(greeting, f"all {most} places are taken")
    from trainwright.trainer import worker
    from trainwright.trainer.jobs.first_imports import import_first

    assert worker  # noqa: S101 - what the forks go on with
    import_first(of_parts)
    read_ahead()
    loaded = _loaded()
    problem = _problem(began, loaded, int(most_bytes))
    if problem is not None:
        _end(greeting, problem)
    forks: dict[int, _Fork] = {}
    asking, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with suppress(OSError):
        with greeting, theirs:
            socket.send_fds(greeting, [READY], [theirs.fileno()])  # of the first one somebody may have a copy
        while _is_asked(asking, float(idle_seconds), forks):
            said, files, _, _ = socket.recv_fds(asking, MAX_BYTES, 2)
            if not said or len(files) != 2 or _changed(loaded) or threads() > 1:
                break
            wanted, kills = json.loads(said), memory_kills()
            if (fork := os.fork()) == 0:
                asking.close()
                slot.close()
                return _become(wanted, *files)
            forks[fork] = _Fork(Path(wanted["run"]), kills)
            for file in files:
                os.close(file)
    os._exit(0)


def read_ahead() -> None:
    """Read and build once what every fork would: packages, the engine's digest, the schemas of its records."""
    from trainwright.trainer.base.paths import ENGINE
    from trainwright.trainer.run.environment import engine_digest, imported_packages

    imported_packages()
    engine_digest(ENGINE)
    kinds: list[type[BaseModel]] = BaseModel.__subclasses__()
    for kind in kinds:
        kinds += kind.__subclasses__()
        kind.model_rebuild(raise_errors=False)
    gc.collect()
    gc.freeze()  # a fork's collections would touch, and so copy, every page of objects that it never changes


def _is_asked(asking: socket.socket, idle_seconds: float, forks: dict[int, _Fork]) -> bool:
    """Wait for the next request, and record meanwhile how forks end; False: nobody asked for so long."""
    until = time.monotonic() + idle_seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([asking], [], [], min(left, REAP_SECONDS) if forks else left)[0]:
            return True
        _reap(forks)
    return False


def _reap(forks: dict[int, _Fork]) -> None:
    """Leave no zombies, and write into a run's folder how its fork ended."""
    while forks:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        if (fork := forks.pop(pid, None)) is not None:
            record_exit(fork.run, pid, os.waitstatus_to_exitcode(status), kills_before=fork.kills)


def threads() -> int:
    """Return the number of threads of this process, libraries' own included."""
    return len(list(Path("/proc/self/task").iterdir()))


def own_memory() -> int:
    """Return the bytes of this process that no file backs: its own, which nobody shares."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024


def _end(greeting: socket.socket, why: str) -> NoReturn:
    with suppress(OSError):
        greeting.send(why.encode())
    os._exit(0)


def _slot(folder: Path, most: int) -> IO[bytes] | None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(most):
        file = (folder / f"slot-{number}").open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
        else:
            return file
    return None


def _problem(began: int, loaded: Stamps, most_bytes: int) -> str | None:
    """Return why this process cannot stand for a fresh one."""
    if threads() > 1:
        return f"{threads()} threads run, and none survives a fork"
    if own_memory() > most_bytes:
        return f"it takes {own_memory() >> 20} MiB, and may take {most_bytes >> 20}"
    late = [name for name, stamp in loaded.items() if stamp is None or stamp[-1] >= began]
    return f"{late[0]} changed while it was imported" if late else None


def _loaded() -> Stamps:
    """Return the stamps of all files that are loaded, of their folders, and of those in which modules are looked for.

    An installation, an update or a removal changes one of them; the inode's time of change can be set by nobody.
    """
    files = {str(place) for module in list(sys.modules.values()) if (place := getattr(module, "__file__", None))}
    with Path("/proc/self/maps").open() as mapped:
        files |= {line[73:].strip() for line in mapped}
    files = {name for name in files if name.startswith("/") and not name.startswith(NO_FILES)}
    folders = {os.path.dirname(name) for name in files}  # noqa: PTH120 - thousands
    places = {place for place in sys.path if os.path.exists(place)}  # noqa: PTH110
    return {name: stamp_of(name) for name in sorted(files | folders | places)}


def _changed(loaded: Stamps) -> bool:
    return any(stamp_of(name) != stamp for name, stamp in loaded.items())


def _replace(descriptors: dict[int, int]) -> None:
    for number, file in descriptors.items():
        os.dup2(file, number)
    for file in set(descriptors.values()):
        os.close(file)


def _become(wanted: dict[str, Any], channel: int, log: int) -> None:
    """Be the worker of a run, once the launcher has recorded this process; end if it never does."""
    os.setsid()
    os.dup2(log, 2)
    _replace({0: channel, 1: log})
    try:
        os.chdir(wanted["cwd"])
        with socket.socket(fileno=os.dup(0)) as launcher:
            launcher.send(BORN)
            if launcher.recv(1) != GO:
                os._exit(0)
    except OSError:
        os._exit(0)
    try:
        if wanted["wall"] is not None:
            wall.enter(wanted["wall"])
            tempfile.tempdir = None  # found anew, by the variable
    except OSError as error:
        sys.stderr.write(f"refused: the wall round the worker: {error.filename}: {error.strerror}.\n")
        os._exit(2)
    sys.orig_argv[1 - len(sys.argv) :] = [wanted["run"]]  # recorded as the command line
    sys.argv[1:] = [wanted["run"]]
    _renew()


def _renew() -> None:
    """Draw anew what a fresh interpreter draws for itself."""
    import numpy as np

    np.random.seed()
    multiprocessing.current_process().authkey = os.urandom(32)
