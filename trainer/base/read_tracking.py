"""Traces: the files that a function opened and the folders it listed, each as it was at that moment.

A result that depends on nothing else can be cached until one of them changes. A file counts as unchanged when device,
inode, size and both times are equal; the inode's time of change is the kernel's, and no program sets it back.
A file that may still have been written while it was read (git calls such entries racy) is not relied on.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

T = TypeVar("T")

Stamp = tuple[int, ...] | None
"""Device, inode, size (of a lock whether it is held), times of content and of inode; None where there is no file."""
SETTLED_NS = 2_000_000_000
PASSING = ("-shm", "-wal", "-journal", ".tmp")
"""Suffixes of temporary files: SQLite's, and those of files that are being replaced."""
LOCK = "/run.lock"
"""Lock file, whose stamp includes whether a process holds it."""
COMPILED = (".pyc", "__pycache__")
METRICS = "metrics.sqlite"
MAX_VALUES = 4096
_glance: ContextVar[dict[str | int, Any] | None] = ContextVar("glance", default=None)
"""Stamps that were taken in the present check: each file is read once."""
_traces: ContextVar[tuple[Trace, ...]] = ContextVar("traces", default=())


def _none(_: Trace) -> None:
    return None


class Listing(NamedTuple):
    """A folder's stamp, and the names in it."""

    stamp: Stamp
    names: frozenset[str] | None


class Trace:
    """Files and folders that one call read."""

    def __init__(self) -> None:
        self.files: dict[str, Stamp] = {}
        self.folders: dict[str, Listing] = {}
        self.parts: dict[int, Trace] = {}
        """Traces of cached values that were used."""
        self.marks: set[str] = set()
        """Other dependencies, by names that the caller gives them."""
        self.is_fleeting = False
        """Whether it depends on something that has no stamp: a lock, a process, the clock."""
        self.began_ns = time.time_ns()

    def file(self, path: str) -> None:
        """Record a file, and the folder that it is in."""
        if path not in self.files:
            self.files[path] = stamp_of(path)
            self.folder(os.path.dirname(path))  # noqa: PTH120 - for every file that is opened

    def folder(self, path: str) -> None:
        """Record a folder by the names in it."""
        if path not in self.folders:
            self.folders[path] = Listing(stamp_of(path), names_in(path))

    def join(self, other: Trace) -> None:
        """Record everything in another trace."""
        self.parts[id(other)] = other
        self.marks |= other.marks
        self.is_fleeting = self.is_fleeting or other.is_fleeting

    def forget_files(self) -> None:
        """Drop everything but the marks."""
        self.files, self.folders, self.parts = {}, {}, {}

    def keep_folders(self, folders: Collection[str]) -> None:
        """Drop everything but the names in these folders, which a library's own cache may have kept from being read."""
        before = self.folders
        self.forget_files()
        self.folders = {path: before.get(path) or Listing(stamp_of(path), names_in(path)) for path in folders}

    def leave_out(self, folder: str) -> None:
        """Drop everything below a folder."""
        self.files = {path: stamp for path, stamp in self.files.items() if not path.startswith(folder)}
        self.folders = {path: listing for path, listing in self.folders.items() if not path.startswith(folder)}
        self.parts = {key: part for key, part in self.parts.items() if not part.lies_below(folder)}

    def lies_below(self, folder: str) -> bool:
        """Return whether it depends on files, and all of them are below a folder."""
        paths = [*self.files, *self.folders]
        return bool(paths) and all(path.startswith(folder) for path in paths)

    def is_settled(self) -> bool:
        """Return whether every file had stopped changing well before it was read."""
        stamps = [*self.files.values(), *(listing.stamp for listing in self.folders.values())]
        newest = max((max(stamp[3:]) for stamp in stamps if stamp is not None), default=0)
        return not self.is_fleeting and newest < self.began_ns - SETTLED_NS and self._parts_are_settled()

    def _parts_are_settled(self) -> bool:
        return all(part.is_settled() for part in self.parts.values())

    def holds(self, seen: dict[str | int, Any]) -> bool:
        """Return whether nothing has changed.

        Args:
            seen: stamps, and verdicts on traces, of this check; shared by all traces in it.
        """
        if id(self) not in seen:
            seen[id(self)] = self._holds(seen)
        return bool(seen[id(self)])

    def _holds(self, seen: dict[str | int, Any]) -> bool:
        for path, stamp in self.files.items():
            if path not in seen:
                seen[path] = stamp_of(path)
            if seen[path] != stamp:
                return False
        folders = all(self._holds_folder(path, listing, seen) for path, listing in self.folders.items())
        return folders and all(part.holds(seen) for part in self.parts.values())

    def _holds_folder(self, path: str, listing: Listing, seen: dict[str | int, Any]) -> bool:
        if path not in seen:
            seen[path] = stamp_of(path)
        if seen[path] == listing.stamp:
            return True
        if names_in(path) != listing.names:
            return False
        if seen[path] is not None and max(seen[path][3:]) < time.time_ns() - SETTLED_NS:
            self.folders[path] = Listing(seen[path], listing.names)
        return True


def stamp_of(path: str) -> Stamp:
    """Return the stamp of a file or folder; SQLite's log counts as absent while it is empty."""
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands of them for one check
    except (OSError, ValueError):
        return None
    if not found.st_size and path.endswith("-wal"):
        return None
    size = found.st_size if not path.endswith(LOCK) else int(_is_held(path))
    return (found.st_dev, found.st_ino, size, found.st_mtime_ns, found.st_ctime_ns)


def _is_held(path: str) -> bool:
    """Return whether a process holds the lock file."""
    token = _traces.set(())
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        _traces.reset(token)
    return False


def names_in(path: str) -> frozenset[str] | None:
    """Return the names in a folder, without temporary files; None where there is no folder."""
    token = _traces.set(())
    try:
        return frozenset(name for name in os.listdir(path) if not name.endswith(PASSING))  # noqa: PTH208
    except OSError:
        return None
    finally:
        _traces.reset(token)


@contextmanager
def traced() -> Iterator[Trace]:
    """Trace the reads inside the context; enclosing traces include this one."""
    _listen()
    trace, outer = Trace(), _traces.get()
    token = _traces.set((trace,))
    try:
        yield trace
    finally:
        _traces.reset(token)
        for one in outer:
            one.join(trace)


def note(path: str | os.PathLike[str]) -> None:
    """Add a dependency on a file that is not opened, because its digest is cached or only its size is read."""
    for trace in _traces.get():
        trace.file(os.fspath(path))


def note_fleeting() -> None:
    """Mark the trace as depending on something that has no stamp."""
    for trace in _traces.get():
        trace.is_fleeting = True


def note_mark(name: str) -> None:
    """Add a named dependency that is no file."""
    for trace in _traces.get():
        trace.marks.add(name)


class Memory:
    """Cache of values computed from files, each with its trace; the longest unused goes first."""

    def __init__(self, most: int = MAX_VALUES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[Hashable, Trace, Any]] = {}

    def recall(
        self, key: Hashable, make: Callable[[], T], *,
        state: Callable[[Trace], Hashable] = _none, trim: Callable[[Trace], None] = _none,
    ) -> T:  # fmt: skip
        """Return the cached value if nothing that it depends on has changed; else compute it.

        Args:
            state: gives a further value that must not have changed, for a trace.
            trim: removes from the trace the files that do not matter.
        """
        with one_glance() as seen:
            found = self._kept.get(key)
            if found is not None and found[0] == state(found[1]) and found[1].holds(seen):
                for outer in _traces.get():
                    outer.join(found[1])
                self._keep(key, found)
                return found[2]  # type: ignore[no-any-return]
            with traced() as trace:
                value = make()
        if trace.is_settled():
            trim(trace)
            self._keep(key, (state(trace), trace, value))
        return value

    def _keep(self, key: Hashable, kept: tuple[Hashable, Trace, Any]) -> None:
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = kept
            while len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]


@contextmanager
def one_glance() -> Iterator[dict[str | int, Any]]:
    """Read each file's stamp at most once inside the context; yield the stamps, shared with an enclosing context."""
    if (seen := _glance.get()) is not None:
        yield seen
        return
    token = _glance.set(seen := {})
    try:
        yield seen
    finally:
        _glance.reset(token)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    """Record every file that this process opens to read, and every folder that it lists (PEP 578)."""
    if event not in _HEARD or not (traces := _traces.get()):
        return
    path = arguments[0]
    if event == "open" and len(arguments) > 2 and (arguments[2] or 0) & os.O_ACCMODE != os.O_RDONLY:
        return
    if event == "sqlite3.connect":
        path = _database(path)
    if isinstance(path, int) or path is None:
        return
    text = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links are followed by the stamp
    if text.endswith(COMPILED):
        return
    for trace in traces:
        _take(trace, event, text)


def _take(trace: Trace, event: str, path: str) -> None:
    if path.startswith("/proc/"):
        trace.is_fleeting = True
    elif event == "open":
        trace.file(path)
    elif event != "sqlite3.connect":
        trace.folder(path)
    elif path.endswith(f"/{METRICS}"):  # other databases' caches detect changes themselves
        for name in (path, f"{path}-wal"):
            trace.files.setdefault(name, stamp_of(name))


def _database(name: Any) -> str:
    """Return the path of a database that is named as a path or as a URI."""
    text = os.fsdecode(name)
    return unquote(text.removeprefix("file://").partition("?")[0]) if text.startswith("file://") else text


_HEARD = frozenset({"open", "os.listdir", "os.scandir", "sqlite3.connect"})


@cache
def _listen() -> None:
    """Begin to hear: in a process that keeps something, and not in one that trains."""
    sys.addaudithook(_hear)


# Values read from small files, kept in this process, and in its forks, while the files are as they were.

_kept: dict[Hashable, tuple[tuple[Stamp, ...], object]] = {}


def while_unchanged(key: Hashable, paths: Sequence[str], read: Callable[[], T]) -> T:
    """Return what `read` gives, from memory while each of the paths has the stamp that it had then.

    Args:
        key: names the value; one key belongs to one function.
        paths: every file that `read` reads; one that is missing counts as such.
    """
    began = time.time_ns()
    for path in paths:
        note(path)
    stamps = tuple(stamp_of(path) for path in paths)
    if (found := _kept.get(key)) is not None and found[0] == stamps:
        return found[1]  # type: ignore[return-value]
    value = read()
    if max((max(stamp[3:]) for stamp in stamps if stamp is not None), default=0) < began - SETTLED_NS:
        _kept[key] = (stamps, value)
    return value
