"""Hand-over of a run's key to its worker, which starts here: `python -P -m …trainer.starting.handover RUN_DIR`.

With `--warm …` instead it waits with all imports made (`warm`), and goes on here in a fork for each run.

No other process of the user can read it. Whatever one is started with can be read by others: arguments, environment,
a pipe, and memory through a handle that was opened early. So a worker first forbids that (Linux: PR_SET_DUMPABLE),
continues in a fork, whose memory and files nobody can have opened, requests the key's seed, and only then imports what
it works with. The answer goes into a channel that the request brings along, and to a process of the worker alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from trainwright.trainer.base.container import CLIENT
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.base.exits import memory_kills, record_exit

if TYPE_CHECKING:
    from io import RawIOBase

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a message's sender, as the kernel attaches them."""
WARM = "--warm"
SEED_BYTES = 32
"""As in `trainer.run.key`, which imports more than may be loaded before the seed is here."""


def hide_memory() -> bool:
    """Whether other processes of the user cannot read this one's memory, files and environment from now on.

    Linux alone can do so. An execve undoes it; a fork inherits it.
    """
    return sys.platform == "linux" and not ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def continue_hidden() -> None:
    """Return in a fork whose memory nobody can open; this process waits for it, passes requests to stop on, and ends.

    The fork leads a session of its own, and does not outlive this process. Elsewhere than on Linux nothing happens.
    """
    if not hide_memory():
        sys.stderr.write("The run's key is in memory that other processes of the user may read: no Linux.\n")
        return
    parent = os.getpid()
    kills = memory_kills()
    child = os.fork()
    if child:
        _accompany(child, kills)
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)


def _accompany(child: int, kills: int) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: os.kill(child, received))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if len(sys.argv) == 2:  # a run's worker, and not a warm process
        record_exit(Path(sys.argv[1]), int(os.environ.get(CLIENT, os.getpid())), code, kills_before=kills)
    os._exit(code if code >= 0 else 128 - code)


def request_seed() -> bytearray:
    """Request the key's seed through the socket that is the standard input, and leave an empty one in its place.

    A container's engine passes bytes alone: there the seed comes unasked. It can be overwritten: its callers' frames
    hold it while user code runs, which can walk them.

    Raises:
        ConflictError: nobody answers: the server ended in between.
    """
    received = bytearray()
    with suppress(OSError):
        received = _handed() if stat.S_ISFIFO(os.fstat(0).st_mode) else _asked()
    if received:
        return received
    raise ConflictError(
        "The server ended before it handed this worker the run's key, without which nothing it records counts.",
        remedy="resume_training(project, run_id) starts the run again.",
    )


def _asked() -> bytearray:
    """Raises OSError."""
    ours, theirs = socket.socketpair()
    with ours, socket.socket(fileno=os.dup(0)) as asking:
        with theirs:
            socket.send_fds(asking, [b"?"], [theirs.fileno()])
        _leave_empty()
        asking.close()
        with ours.makefile("rb", buffering=0) as stream:
            return _read_seed(stream)


def _handed() -> bytearray:
    """Raises OSError."""
    with open(0, "rb", buffering=0, closefd=False) as pipe:
        received = _read_seed(pipe)
    _leave_empty()
    return received


def _read_seed(stream: RawIOBase) -> bytearray:
    """Return the seed, read into one place that is never moved: no copy is left behind; empty where none came whole.

    Raises OSError.
    """
    received, size = bytearray(SEED_BYTES), 0
    while count := stream.readinto(memoryview(received)[size:]):
        size += count
    return received if size == SEED_BYTES else bytearray()


def _leave_empty() -> None:
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)


def channel() -> tuple[socket.socket, socket.socket]:
    """Return the launcher's end and the one that the worker gets as its standard input."""
    ours, theirs = socket.socketpair()
    if hasattr(socket, "SO_PASSCRED"):
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def heard(end: socket.socket) -> tuple[bytes, int, socket.socket | None]:
    """Return the next message, its sender's process as the kernel names it (0: it does not), and a socket it brings."""
    said, attached, _, _ = end.recvmsg(4096, socket.CMSG_SPACE(4) + socket.CMSG_SPACE(_CREDENTIALS.size))
    values = {kind: value for level, kind, value in attached if level == socket.SOL_SOCKET}
    brought = values.get(socket.SCM_RIGHTS)
    sender = _CREDENTIALS.unpack(values[socket.SCM_CREDENTIALS])[0] if socket.SCM_CREDENTIALS in values else 0
    return said, sender, None if brought is None else socket.socket(fileno=int.from_bytes(brought[:4], sys.byteorder))


def answer(end: socket.socket, worker: int, seed: bytes) -> None:
    """Send the seed to the first request of the worker (a process id) or its fork, and to nobody else.

    Waits for it, and returns without an answer once the worker has ended.
    """
    with end, suppress(OSError):
        while True:
            said, attached, _, _ = end.recvmsg(1, socket.CMSG_SPACE(4) + socket.CMSG_SPACE(_CREDENTIALS.size))
            values = {kind: value for level, kind, value in attached if level == socket.SOL_SOCKET}
            if not said:
                return
            if socket.SCM_RIGHTS not in values:
                continue
            with socket.socket(fileno=int.from_bytes(values[socket.SCM_RIGHTS][:4], sys.byteorder)) as asker:
                if _is_of(worker, values):
                    asker.sendall(seed)
                    return


def _is_of(worker: int, values: dict[int, bytes]) -> bool:
    import psutil

    if not hasattr(socket, "SO_PASSCRED"):
        return True
    sender = _CREDENTIALS.unpack(values[socket.SCM_CREDENTIALS])[0]
    with suppress(psutil.Error):
        return sender == worker or psutil.Process(sender).ppid() == worker
    return False


def main() -> NoReturn:
    """Be the worker of a run that was started with a key, or a process that forks such workers."""
    continue_hidden()
    if sys.argv[1:2] == [WARM]:
        from trainwright.trainer.starting import warm

        warm.wait(*sys.argv[2:])
    try:
        seed = request_seed()
    except ConflictError as error:
        sys.stderr.write(f"refused: {error.message} {error.remedy}\n")
        os._exit(2)
    from trainwright.trainer import worker

    worker.main_and_leave(seed)


if __name__ == "__main__":
    main()
