"""End of a command: what it leaves behind, its processes and its temporary folder, goes with it."""

from __future__ import annotations

import os

KILL = 9
ALL_KINDS = 0x40000000  # waits for children of every kind, whatever signal their end sends (__WALL)
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def end_below() -> None:
    """Kill every process below this one, which adopts orphans: children of what was killed are its own next."""
    try:
        while True:
            if os.waitpid(-1, os.WNOHANG | ALL_KINDS)[0]:
                continue  # one that had ended, or was killed below
            for child in _children():
                os.kill(child, KILL)
            os.waitpid(-1, ALL_KINDS)
    except ChildProcessError:  # none is left
        return


def _children() -> list[int]:
    own = os.getpid()
    try:
        with open(f"/proc/self/task/{own}/children", "rb") as file:
            return [int(number) for number in file.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [int(number) for number in filter(str.isdecimal, os.listdir("/proc")) if parent(number) == own]


def parent(number: str) -> int:
    """Return the process that started one; 0 where that has ended."""
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:  # it has ended meanwhile
        return 0


def remove(base: str) -> None:
    """Remove a folder with what is in it: folders that were closed, or are too deep for a path or recursion, as well.

    Folders are moved up before they are emptied. Links are removed, never followed.
    """
    top, waiting = os.open(base, FOLDER), ["."]
    while waiting:
        name = waiting.pop()
        folder = os.open(name, FOLDER, dir_fd=top)
        for inner in os.listdir(folder):
            try:
                os.unlink(inner, dir_fd=folder)
            except IsADirectoryError:
                os.chmod(inner, 0o700, dir_fd=folder)
                waiting.append(os.urandom(8).hex())
                os.rename(inner, waiting[-1], src_dir_fd=folder, dst_dir_fd=top)
        os.close(folder)
        if name != ".":
            os.rmdir(name, dir_fd=top)
    os.close(top)
    os.rmdir(base)
