"""Opened files: what a run opens under the code root by way of Python, noted when it is opened first.

An audit hook sees what this process and its forks open; torch.save and safetensors, which open files in C++ and Rust,
announce theirs. Each process appends to one file of notes in the run's folder. Not seen are other programs that the
user's code starts, readers of their own in C++ (Parquet, HDF5, SQLite, torchvision's), and files that a library opened
before the run began.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from types import FrameType
from typing import Any

from trainwright import trainer
from trainwright.trainer.base import sidecar_files
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.paths import own_name, workspace_of
from trainwright.trainer.user_code import import_record

NOTES = "opened.jsonl"
MAX_NAMES = 5000
"""That one process notes."""
MAX_BYTES = 8 << 20
"""Of the notes of all processes."""
DIGESTED_BYTES = 1 << 20
"""Larger files are digested at the end of the run, if they have not changed by then."""
_FRESH = os.O_TRUNC | os.O_EXCL
_MOVED = frozenset({"os.rename", "os.link"})
_SAVES, _LOADS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_RDONLY
_ANNOUNCED = (("torch", "save", "f", 1, _SAVES), ("safetensors", "serialize_file", "filename", 1, _SAVES),
              ("safetensors", "safe_open", "filename", 0, _LOADS))  # fmt: skip
"""(package, function, its argument that names the file, the argument's place, how the file is opened)."""
_TRAINER = tuple({f"{each}{os.sep}" for own in trainer.__path__ for each in (own, os.path.realpath(own))})
_ENGINES = frozenset({digest_file.__code__.co_filename, import_record.__file__, sidecar_files.__file__})
"""Where the engine itself reads the user's files, to digest or to compile them, or to record their origin."""
_USERS = "user's"
_MAX_FRAMES = 12
"""Between the hook and the function that opens a file, of Python's own library."""


@dataclass
class _Watch:
    """What is watched, and what was noted already."""

    root: Path
    left_out: tuple[str, ...]
    notes: int
    seen: set[tuple[str, str]] = field(default_factory=set)
    inside: threading.local = field(default_factory=threading.local)

    def note_opened(self, path: str, flags: int) -> None:
        """Note a file that is about to be opened with these flags."""
        kind = "r" if flags & os.O_ACCMODE == os.O_RDONLY else "w"
        if kind == "w" and not flags & _FRESH:
            kind = "a"
        self.note(path, kind)

    def note(self, path: str, kind: str) -> None:
        """Note a file: read (r), written anew (w), or changed as it is (a)."""
        place = os.path.abspath(path)  # noqa: PTH100 - called for every file
        known = (place, kind) in self.seen
        if known and (kind != "r" or (place, _USERS) in self.seen):
            return
        if place.startswith(self.left_out) or self._is_full() or _is_engines():
            return
        by_user = kind == "r" and self._is_by_user()
        if known and not by_user:
            return
        name = own_name(place, self.root)
        before = None if name is None else _before(place)
        if name is not None and before is None and kind == "r":
            return  # it is not there
        self.seen |= {(place, kind)} | ({(place, _USERS)} if by_user or name is None else set())
        if name is not None:
            entry = {"kind": "w" if before is None else kind, "name": name} | (before if kind != "w" and before else {})
            os.write(self.notes, (json.dumps(entry | {"by_user": True} if by_user else entry) + "\n").encode())

    def _is_by_user(self) -> bool:
        """Whether the user's code opens a file, by whichever library: his frame is nearer to it than the engine's."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            whose = _whose(frame.f_code.co_filename, self.root)
            if whose:
                return whose == _USERS
            frame = frame.f_back
        return False

    def _is_full(self) -> bool:
        return len(self.seen) > MAX_NAMES or os.fstat(self.notes).st_size > MAX_BYTES


_watch: _Watch | None = None
_hooked = False


def install(run: Path, code_root: Path) -> None:
    """Note what is opened under the code root, from now on and in this process and its forks."""
    global _watch, _hooked  # noqa: PLW0603 - one run per process
    found = workspace_of(run)
    workspace = run if found is None or code_root.is_relative_to(found) else found
    notes = os.open(run / NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    folders = {f"{folder}{os.sep}" for each in (run, workspace) for folder in (each, each.resolve())}
    _watch = _Watch(code_root, tuple(sorted(folders)), notes)
    if not _hooked:
        for announced in _ANNOUNCED:
            _announce(*announced)
        sys.addaudithook(_hook)
        _hooked = True


def left_out() -> tuple[str, ...]:
    """Return the folders that are not watched: the workspace's, each with its separator."""
    return _watch.left_out if _watch is not None else ()


def noted(run: Path) -> Iterator[dict[str, Any]]:
    """Yield the notes of all processes, in order: {kind, name}, and of a file that was there what it was."""
    with suppress(FileNotFoundError), (run / NOTES).open(encoding="utf-8") as file:
        for line in file:
            with suppress(ValueError):  # the last line of a process that was killed
                yield json.loads(line)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if (event != "open" and event not in _MOVED) or _watch is None or getattr(_watch.inside, "is_noting", False):
        return
    with _noting(_watch), suppress(Exception):  # user code must not fail by it
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes | os.PathLike):
                _watch.note_opened(os.fsdecode(path), flags)
            return
        source, target = (os.fsdecode(path) for path in arguments[:2])
        if (os.path.abspath(source), "w") not in _watch.seen:  # noqa: PTH100
            _watch.note(source, "r")
        _watch.note(target, "w")


@contextmanager
def _noting(watch: _Watch) -> Iterator[None]:
    watch.inside.is_noting = True
    try:
        yield
    finally:
        watch.inside.is_noting = False


def _before(place: str) -> dict[str, Any] | None:
    """Return what a file is before it is opened: {bytes, changed}, and the digest of a small one; None: no file."""
    try:
        found = os.stat(place)  # noqa: PTH116 - called for every file
    except OSError:
        return None
    if not S_ISREG(found.st_mode):
        return None
    small = {"digest": digest_file(Path(place))} if found.st_size <= DIGESTED_BYTES else {}
    return {"bytes": found.st_size, "changed": found.st_mtime_ns, **small}


@functools.lru_cache(4096)
def _whose(file: str, root: Path) -> str:
    """Return whose a file of code is: the user's, or the engine's; empty for any other's."""
    if file == __file__:
        return ""
    if file.startswith(_TRAINER):
        return "engine's"
    return _USERS if not file.startswith("<") and own_name(file, root) is not None else ""


def _is_engines() -> bool:
    frame = sys._getframe(3)
    for _ in range(_MAX_FRAMES):
        if frame.f_code.co_filename in _ENGINES:
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def _announce(package: str, name: str, argument: str, place: int, flags: int) -> None:
    """Let a library's function that opens a file by itself raise Python's event first, wherever it is named."""
    module = __import__(package, fromlist=[name])
    opens: Callable[..., Any] = getattr(module, name)

    @functools.wraps(opens)
    def announcing(*args: Any, **named: Any) -> Any:
        path = args[place] if len(args) > place else named.get(argument)
        if isinstance(path, str | os.PathLike):
            sys.audit("open", os.fspath(path), None, flags)
        return opens(*args, **named)

    for holder, loaded in list(sys.modules.items()):
        if holder.partition(".")[0] == package and getattr(loaded, "__dict__", {}).get(name) is opens:
            setattr(loaded, name, announcing)
