"""Paths of the user's files: inside the code root, symbolic links followed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trainwright.trainer.base.near import near, near_matches
from trainwright.trainer.errors import ConfigurationError

_SKIPPED = {".git", ".venv", "venv", "node_modules", "__pycache__", ".trainwright"}


def confine(path: str, code_root: Path, *, key: str) -> Path:
    """Return the existing file `path` (relative to the code root), resolved.

    Raises:
        ConfigurationError: it does not exist, or lies outside the code root; names the key, the path tried and near
            matches.
    """
    tried = code_root / path
    resolved = tried.resolve()
    if not resolved.is_relative_to(code_root.resolve()):
        raise ConfigurationError(
            f"`{key}` = {path!r} leads to {resolved}, outside the code root {code_root}.",
            remedy="Move the file under code_root, or ask the workspace's owner to allow another code root.",
        )
    if not resolved.is_file():
        suffix = Path(path).suffix
        names = [name for name in files_under(code_root) if name.endswith(suffix)]
        raise ConfigurationError(
            f"`{key}` = {path!r}: no file at {tried}.{near_matches(path, names)}",
            remedy="Paths are relative to code_root; correct the path or code_root.",
            details={"near": next(iter(near(path, names)), None)},
        )
    return resolved


def confine_folder(path: str, code_root: Path, *, key: str) -> Path:
    """Return the existing folder `path` (relative to the code root), resolved.

    Raises:
        ConfigurationError: there is none, or it lies outside the code root.
    """
    tried = code_root / path
    resolved = tried.resolve()
    if not resolved.is_relative_to(code_root.resolve()):
        raise ConfigurationError(
            f"`{key}` = {path!r} leads to {resolved}, outside the code root {code_root}.",
            remedy="Move the folder under code_root, or ask the workspace's owner to allow another code root.",
        )
    if not resolved.is_dir():
        names = {parent.as_posix() for name in files_under(code_root) for parent in Path(name).parents}
        raise ConfigurationError(
            f"`{key}` = {path!r}: no folder at {tried}.{near_matches(path, names)}",
            remedy="Paths are relative to code_root; correct the path or code_root.",
            details={"near": next(iter(near(path, names)), None)},
        )
    return resolved


def files_under(code_root: Path, limit: int = 2000) -> list[str]:
    """Return relative paths of files under the root, hidden and installed folders left out."""
    found: list[str] = []
    for folder, folders, names in _walk(code_root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        found += [(folder / name).relative_to(code_root).as_posix() for name in sorted(names)]
        if len(found) > limit:
            break
    return found[:limit]


def _walk(root: Path) -> Iterable[tuple[Path, list[str], list[str]]]:
    import os

    for folder, folders, names in os.walk(root):
        yield Path(folder), folders, names
