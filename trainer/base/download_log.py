"""Files that this process fetched for its data: where they lie in the cache, and under which name they are recorded."""

from __future__ import annotations

from pathlib import Path

_FETCHED: dict[Path, str] = {}


def note(place: Path, name: str) -> None:
    """Take a fetched file or folder as one of the user's, recorded as `name`: `s3://bucket/rows.csv`."""
    _FETCHED[place.resolve()] = name


def name_of(path: Path) -> str | None:
    """Return the name under which a fetched file, or one in a fetched folder, is recorded; None for any other."""
    for place in (path, *path.parents):
        if (name := _FETCHED.get(place)) is not None:
            inside = path.relative_to(place).as_posix()
            return name if inside == "." else f"{name.rstrip('/')}/{inside}"
    return None


def is_remote(path: object) -> bool:
    """Return whether a path names a place elsewhere, `scheme://…`, which is no file under a folder."""
    return isinstance(path, str) and "://" in path
