"""Cache of what is made from data: matrices of large tables, tokens, fetched files, unpacked archives; by content.

An entry is a folder under a key that says all that decides what is in it. It saves time and is no evidence: what a run
reads from it goes into the run's fingerprint like anything else. The smoke run, on which planning is decided, reads
entries only that were made after it began.

    <hex of the key>.lock       held while somebody makes the entry
    <hex of the key>/<id>/      content/, manifest.json (sizes and digests), used.lock (held while somebody reads)
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.data.file_digests import FileDigests, Stamp, file_digests, stamp_of

CONTENT, MANIFEST, USED = "content", "manifest.json", "used.lock"
UNFINISHED = ".making-"
"""Prefix of the folders that are being made."""
MAX_BYTES = 50 * 1024**3
SYNCED_ONE_BY_ONE = 64
"""Files of an entry up to which each is synced; of more, everything that the machine has not written yet."""


@dataclass(frozen=True)
class DataCache:
    """Entries in one folder, which several processes share.

    Attributes:
        folder: where entries are kept; made when it is needed.
        most_bytes: of all entries; the least recently used ones above it are deleted, unless somebody reads them.
        since_ns: entries published before this time (of the file system) are made anew.
    """

    folder: Path
    most_bytes: int = MAX_BYTES
    since_ns: int = 0
    _held: dict[Path, int] = field(default_factory=dict, repr=False)
    """Descriptors of the locks on the entries that this process reads, for as long as it lives."""

    def made(self, key: str, make: Callable[[Path], None]) -> Path:
        """Return the folder of the key's entry, made now unless an intact one is kept. Its files are only to be read.

        Args:
            key: says everything that decides the content, digests of its sources first of all.
            make: fills an empty folder. What it raises is passed on, and nothing is kept.
        """
        place = self.folder / digest_bytes(key.encode()).partition(":")[2][:32]
        if (found := self._find(place)) is not None:
            return found
        with _locked(place.with_suffix(".lock")):
            found = self._find(place)  # made by another process while this one waited
            if found is None:
                found = self._make(place, make)
        self._drop_above(self.most_bytes)
        return found

    @property
    def digests(self) -> FileDigests:
        """Digests of source files, kept beside the entries."""
        return FileDigests(self.folder / "digests", self.since_ns)

    def _find(self, place: Path) -> Path | None:
        for entry in sorted(place.glob("*"), key=_age, reverse=True):
            if entry in self._held:
                return entry / CONTENT
            lock = _shared_lock(entry / USED)
            if lock is None:
                continue
            if self._is_intact(entry):
                self._held[entry] = lock
                with suppress(OSError):
                    os.utime(entry / MANIFEST)
                return entry / CONTENT
            os.close(lock)
            _delete_unused(entry)
        return None

    def _is_intact(self, entry: Path) -> bool:
        """Return whether the entry holds what was written: by the files' stamps, by content where they differ."""
        try:
            if (entry / CONTENT).stat().st_ctime_ns < self.since_ns:
                return False
            listed = json.loads((entry / MANIFEST).read_bytes())["files"]
            if _names(entry / CONTENT) != sorted(listed):
                return False
            moved = []
            for name, (digest, *stamp) in listed.items():
                found = stamp_of(entry / CONTENT / name)
                if found[2] != stamp[2]:
                    return False
                if list(found) != stamp:
                    moved.append((name, digest))
            digests = file_digests([entry / CONTENT / name for name, _ in moved])
            return digests == [digest for _, digest in moved]
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
            return False

    def _make(self, place: Path, make: Callable[[Path], None]) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f"{UNFINISHED}{uuid.uuid4().hex}"
        draft.mkdir()
        lock = _shared_lock(draft / USED, make=True)
        try:
            (draft / CONTENT).mkdir()
            make(draft / CONTENT)
            names = _names(draft / CONTENT)
            _sync([draft / CONTENT / name for name in names])
            listed = _listed(draft / CONTENT, names)
            manifest = {"bytes": sum(stamp[2] for _, *stamp in listed.values()), "files": listed}
            (draft / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
            _sync([draft / MANIFEST, draft / CONTENT, draft])
            place.mkdir(exist_ok=True)
            os.utime(draft / CONTENT)  # its time of change is that of publishing
            entry = draft.rename(place / draft.name.removeprefix(UNFINISHED))
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            if lock is not None:
                os.close(lock)
            raise
        if lock is not None:
            self._held[entry] = lock
        with suppress(OSError):
            _sync([place])
        return entry / CONTENT

    def _drop_above(self, most_bytes: int) -> None:
        """Delete what was left unfinished, and the least recently used entries until the others take so many bytes."""
        for draft in self.folder.glob(f"{UNFINISHED}*"):
            _delete_unused(draft)
        entries = sorted(self.folder.glob(f"*/*/{MANIFEST}"), key=_age)
        sizes = [_bytes_of(manifest) for manifest in entries]
        total = sum(sizes)
        for manifest, size in zip(entries, sizes, strict=True):
            if total <= most_bytes:
                break
            if manifest.parent not in self._held and _delete_unused(manifest.parent):
                total -= size


_current: DataCache | None = None
_private: DataCache | None = None


def use(cache: DataCache | None) -> None:
    """Let this process, and its forks, keep in this cache what they make from data; None: in a private one."""
    global _current  # noqa: PLW0603 - one run per process
    _current = cache


def current() -> DataCache:
    """Return the cache of this process: its run's, or a private one in a temporary folder."""
    global _private  # noqa: PLW0603
    if _current is not None:
        return _current
    if _private is None:
        _private = DataCache(Path(tempfile.mkdtemp(prefix="trainwright-data-")))
        atexit.register(end, os.getpid())
    return _private


def end(process: int) -> None:
    """Delete the private cache, if this is the process that made it, and not a fork of it."""
    if _private is not None and process == os.getpid():
        shutil.rmtree(_private.folder, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:  # closing it unlocks it
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _shared_lock(path: Path, *, make: bool = False) -> int | None:
    """Return the descriptor of a lock that keeps others from deleting the entry; None where it is being deleted."""
    try:
        lock = os.open(path, os.O_RDWR | (os.O_CREAT if make else 0), 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _delete_unused(entry: Path) -> bool:
    """Delete an entry that nobody reads or makes; return whether it is gone."""
    try:
        with (entry / USED).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry, ignore_errors=True)
    except BlockingIOError:
        return False
    except OSError:
        return not entry.exists()
    with suppress(OSError):
        entry.parent.rmdir()  # the last entry of its key
    return True


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def _listed(folder: Path, names: list[str]) -> dict[str, list[Any]]:
    paths = [folder / name for name in names]
    stamps: list[Stamp] = [stamp_of(path) for path in paths]
    digests = file_digests(paths)
    return {name: [digest, *stamp] for name, digest, stamp in zip(names, digests, stamps, strict=True)}


def _age(path: Path) -> float:
    manifest = path if path.name == MANIFEST else path / MANIFEST
    try:
        return manifest.stat().st_mtime
    except OSError:
        return 0.0


def _bytes_of(manifest: Path) -> int:
    try:
        return int(json.loads(manifest.read_bytes())["bytes"])
    except (OSError, ValueError, TypeError, KeyError):
        return 0


def _sync(paths: list[Path]) -> None:
    if len(paths) > SYNCED_ONE_BY_ONE:
        os.sync()
        return
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
