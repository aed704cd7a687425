"""Digests of data files at the speed of the disk: BLAKE3, several threads, kept until a file changes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blake3 import blake3

from trainwright.trainer.base.canonical import digest_bytes, digest_json
from trainwright.trainer.base.paths import files_in

PIECE_BYTES = 1 << 20
"""Of a file that are hashed together, for each thread."""
LARGE_BYTES = 64 << 20
"""From this size on a file has all threads for itself."""
SETTLED_NS = 2_000_000_000
"""A file that changed so shortly before may have changed while it was read: its digest is not kept."""

Stamp = tuple[int, int, int, int, int]
"""Device, inode, size, times of content and of inode."""


def stamp_of(path: Path) -> Stamp:
    """Return a file's stamp, which changes with its content. Raises OSError."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def file_digests(paths: Sequence[Path]) -> list[str]:
    """Return `canonical.digest_file` of each file: small ones side by side, a large one by several threads."""
    threads = _threads()
    found: dict[Path, str] = {}
    small = []
    for path in paths:
        if path.stat().st_size >= LARGE_BYTES:
            found[path] = _digest(path, threads)
        else:
            small.append(path)
    if len(small) > 1:
        with ThreadPoolExecutor(threads) as pool:
            found |= dict(zip(small, pool.map(_digest, small, chunksize=16), strict=True))
    else:
        found |= {path: _digest(path) for path in small}
    return [found[path] for path in paths]


def _digest(path: Path, threads: int = 1) -> str:
    # a number of threads, and not AUTO: those of the process would not be there in a fork
    hasher = blake3(max_threads=threads)
    room = memoryview(bytearray(min(max(path.stat().st_size, 1), threads * PIECE_BYTES)))
    with path.open("rb", buffering=0) as file:
        with suppress(OSError, AttributeError):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while count := file.readinto(room):
            hasher.update(room[:count])
    return f"blake3:{hasher.hexdigest()}"


def _threads() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 8)


@dataclass(frozen=True)
class FileDigests:
    """Digests that are kept in a folder, by path and stamp: one file for each file or folder that was asked for.

    Attributes:
        folder: where they are kept.
        since_ns: digests kept before this time (of the file system) are computed again.
    """

    folder: Path
    since_ns: int = 0

    def of(self, path: Path) -> str:
        """Return `canonical.digest_path` of a file, or of a folder by the names and contents in it. Raises OSError."""
        path = path.resolve()
        if not path.is_dir():
            return self._contents(path, [path])[0]
        names = files_in(path)
        digests = self._contents(path, [path / name for name in names])
        return digest_json([list(pair) for pair in zip(names, digests, strict=True)])

    def _contents(self, asked: Path, paths: list[Path]) -> list[str]:
        store = self.folder / f"{digest_bytes(str(asked).encode()).partition(':')[2][:32]}.json"
        known = self._read(store)
        began = time.time_ns()
        stamps = [stamp_of(path) for path in paths]
        digests = {
            path: known[str(path)][0]
            for path, stamp in zip(paths, stamps, strict=True)
            if known.get(str(path), [None])[1:] == list(stamp)
        }
        missing = [path for path in paths if path not in digests]
        if not missing:
            return [digests[path] for path in paths]
        digests |= dict(zip(missing, file_digests(missing), strict=True))
        kept = {
            str(path): [digests[path], *stamp]
            for path, stamp in zip(paths, stamps, strict=True)
            if max(stamp[3:]) < began - SETTLED_NS
        }
        self._keep(store, kept)
        return [digests[path] for path in paths]

    def _read(self, store: Path) -> dict[str, list[Any]]:
        try:
            if store.stat().st_ctime_ns < self.since_ns:
                return {}
            found = json.loads(store.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _keep(self, store: Path, kept: dict[str, list[Any]]) -> None:
        """Keep digests. Failing to keep them costs only time."""
        fresh = store.with_name(f"{store.name}.{os.getpid()}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps(kept), encoding="utf-8")
            fresh.replace(store)
        except OSError:
            fresh.unlink(missing_ok=True)
