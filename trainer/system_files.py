"""Files that operating systems leave in folders that somebody has looked into: they belong to nobody's data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

NAMES = frozenset({".ds_store", "thumbs.db", "ehthumbs.db", "desktop.ini", ".localized", ".directory"})
APPLE_DOUBLE = "._"
"""Begins the name of what macOS keeps of a file on a volume that has no place for it."""


def is_left_by_system(path: Path) -> bool:
    """Return whether a file is one that an operating system wrote by itself, by its name."""
    return path.name.lower() in NAMES or path.name.startswith(APPLE_DOUBLE)


def files_among(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files among the paths, without those that an operating system left."""
    return (path for path in paths if not is_left_by_system(path) and path.is_file())
