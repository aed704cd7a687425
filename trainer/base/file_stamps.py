"""Stamps of files: what was read of files is kept in memory while all of them are as they were.

A file counts as unchanged when device, inode, size and both times are equal; the inode's time of change is the
kernel's, and no program sets it back. A file that may still have been written while it was read (git calls such
entries racy) is not relied on.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

Stamp = tuple[int, ...] | None
"""Device, inode, size (of a lock whether it is held), times of content and of inode; None where there is no file."""
SETTLED_NS = 2_000_000_000
PASSING = ("-shm", "-journal", ".tmp")
"""Suffixes of temporary files: SQLite's, and those of files that are being replaced."""
LOCK = "/run.lock"
"""Lock file, whose stamp includes whether a process holds it."""
MAX_VALUES = 4096


def stamp_of(path: str | os.PathLike[str]) -> Stamp:
    """Return the stamp of a file or folder; SQLite's log counts as absent while it is empty."""
    name = os.fspath(path)
    try:
        found = os.stat(name)  # noqa: PTH116 - thousands of them for one answer
    except (OSError, ValueError):
        return None
    if not found.st_size and name.endswith("-wal"):
        return None
    size = found.st_size if not name.endswith(LOCK) else int(_is_held(name))
    return (found.st_dev, found.st_ino, size, found.st_mtime_ns, found.st_ctime_ns)


def _is_held(path: str) -> bool:
    """Return whether a process holds the lock file."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def stamps_below(folder: str | os.PathLike[str], *, without: str = "") -> dict[str, Stamp]:
    """Return the stamps of all files below a folder by path, temporary files left out.

    Args:
        without: name of a folder in it that is passed over.
    """
    found: dict[str, Stamp] = {}
    passed_over = os.path.join(folder, without) if without else ""  # noqa: PTH118 - as the entries' paths
    waiting = [top := os.fspath(folder)]
    while waiting:
        with suppress(OSError), os.scandir(here := waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=here == top):  # runs on another disk; deeper links lead to data
                    if entry.path != passed_over:
                        waiting.append(entry.path)
                elif not entry.name.endswith(PASSING) and (stamp := stamp_of(entry.path)) is not None:
                    found[entry.path] = stamp
    return found


def are_settled(stamps: Iterable[Stamp], began_ns: int) -> bool:
    """Return whether every file had stopped changing well before its reading began."""
    return max((max(stamp[3:]) for stamp in stamps if stamp is not None), default=0) < began_ns - SETTLED_NS


_kept: dict[Hashable, tuple[dict[str, Stamp], object]] = {}
"""Of this process, and of its forks."""


def while_unchanged(key: Hashable, paths: Iterable[str], read: Callable[[], T]) -> T:
    """Return what `read` gives, from memory while each of the paths has the stamp that it had then.

    Args:
        key: names the value; one key belongs to one function.
        paths: every file that `read` reads; one that is missing counts as such.
    """
    began = time.time_ns()
    stamps = {path: stamp_of(path) for path in paths}
    if (found := _kept.get(key)) is not None and found[0] == stamps:
        return found[1]  # type: ignore[return-value]
    value = read()
    if are_settled(stamps.values(), began):
        make_room(_kept)
        _kept[key] = (stamps, value)
    return value


def make_room(kept: dict[Hashable, T]) -> None:
    """Drop the older half of the kept values, once there are MAX_VALUES of them."""
    if len(kept) >= MAX_VALUES:
        for key in list(kept)[: MAX_VALUES // 2]:
            kept.pop(key, None)
