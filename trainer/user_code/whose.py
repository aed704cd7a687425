"""Whose a source file is: the user's (under the code root, or elsewhere), a library's, or the engine's."""

from __future__ import annotations

import os
import site
import sysconfig
from functools import cache
from pathlib import Path

import trainwright
from trainwright import trainer

ENGINE = Path(trainer.__file__).resolve().parent
PACKAGE = Path(trainwright.__file__).parent
LIBRARIES = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages by their names: a cluster's modules put theirs on PYTHONPATH."""


def own_name(path: str, code_root: Path) -> str | None:
    """Return a file's path relative to the root; None for what lies elsewhere, is installed, or is the engine's."""
    root, _, libraries = _bounds(code_root)
    if path.startswith(libraries):  # asked for every library that is imported
        return None
    resolved = os.path.realpath(path)
    if resolved.startswith(libraries):
        return None
    for place in map(Path, (resolved, os.path.abspath(path))):  # noqa: PTH100 - a link under the root is own code too
        if place.is_relative_to(root):
            return place.relative_to(root).as_posix()
    return None


def users_name(path: str, code_root: Path) -> str | None:
    """Return the name under which a file that is imported is recorded; None for a library's or the engine's.

    That is `own_name`, or for code that stands outside the root, and is not installed, its absolute path: an editable
    install, a folder on PYTHONPATH, a model's code that the hub keeps in its cache.
    """
    _, installed, _ = _bounds(code_root)
    if (own := own_name(path, code_root)) is not None or path.startswith(installed):
        return own
    resolved = os.path.realpath(path)
    if resolved.startswith(installed) or not LIBRARIES.isdisjoint(Path(path).parts):
        return None
    return resolved


@cache
def _bounds(code_root: Path) -> tuple[Path, tuple[str, ...], tuple[str, ...]]:
    """Return the root itself, the folders of libraries and of the engine, and those but for one that the root is in."""
    root = code_root.resolve()
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    given = [*(sysconfig.get_path(kind) for kind in kinds), *site.getsitepackages(), site.getusersitepackages()]
    folders = {*map(Path, given), *(Path(folder).resolve() for folder in given), ENGINE, PACKAGE}
    installed = tuple(f"{folder}{os.sep}" for folder in sorted(folders))
    return root, installed, tuple(folder for folder in installed if not root.is_relative_to(folder))
