"""Interpreters and their packages: what a worker reads of them, and what of them in a code root it does not write."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from trainwright.trainer.run.runtime import PACKAGE, Runtime

PARTS = ("bin", "lib", "lib64", "include", "share", "pyvenv.cfg")
"""Of an environment in which something else lies."""
_MARKS = ("pyvenv.cfg", "conda-meta")
"""At the top of an environment that has a folder for itself."""
_OF_PACKAGES = re.compile(
    r"/lib(64)?/((python|pypy)\d[\d.]*(/(site|dist)-packages(/.*)?|/lib-dynload)?|python\d+\.zip)\Z"
)
"""End of the path of a standard library, or of what is installed."""


def readable(runtime: Runtime | None, home: str) -> Iterator[str]:
    """Yield what a worker reads of interpreters: the server's and the runtime's, never the home or what is above it."""
    places = [*own(), *_edited(sys.path)] if runtime is None else [*_starting(), *_of_another(runtime)]
    real = os.path.realpath(home)
    for one in places:
        if not is_in(real, os.path.realpath(one)):
            yield one
        elif one in {sys.prefix, sys.base_prefix}:
            yield from (f"{one}/{part}" for part in PARTS)


def own() -> list[str]:
    """Return where the server's interpreter and this package are, and all else that the server imports from."""
    return [*_starting(), *(one for one in sys.path if os.path.isabs(one))]  # noqa: PTH117


def imports_from(root: str) -> bool:
    """Return whether the server imports from a code root itself (a real path), and not only from folders in it."""
    return any(os.path.realpath(one) == root for one in sys.path if os.path.isabs(one))  # noqa: PTH117


def of_interpreter(python: Path) -> list[str]:
    """Return the parts of an interpreter's environment, and of that which it is a link to."""
    found = []
    for prefix in {python.parents[1], python.resolve().parents[1]}:
        is_its_own = any((prefix / mark).exists() for mark in _MARKS)
        found += [str(prefix)] if is_its_own else [str(prefix / part) for part in PARTS if part != "share"]
    return found


def within(root: str, prefixes: Iterable[str]) -> list[str]:
    """Return what lies in a code root (a real path) of environments and folders, of which the root may be one's part.

    Of an environment that the root lies in, it is those of its parts that lie in the root.
    """
    found = []
    for prefix in map(os.path.realpath, prefixes):
        if prefix != root and is_in(prefix, root):
            found.append(prefix)
        else:
            found += [one for part in PARTS if is_in(one := f"{prefix}/{part}", root) and os.path.lexists(one)]
    return found


def is_in(path: str, folder: str) -> bool:
    """Return whether a path is a folder's or the folder itself, by their texts."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _starting() -> list[str]:
    linked = [one.resolve().as_posix() for one in PACKAGE.iterdir() if one.is_symlink()]  # in a checkout
    return [sys.prefix, sys.base_prefix, str(PACKAGE.parent), *linked]


def _of_another(runtime: Runtime) -> list[str]:
    """Return the folders of another environment: what its interpreter says beyond them is user code's to say, which
    may write files that it runs (`.pth`, `sitecustomize`)."""
    path = [one for one in map(os.path.realpath, runtime.path) if _OF_PACKAGES.search(one)]
    return [*of_interpreter(Path(runtime.python)), runtime.ours, runtime.overlay, *path]


def _edited(path: Iterable[str]) -> Iterator[str]:
    """Yield where packages are that were installed to be edited."""
    for place in {Path(one) for one in path if "-packages" in one}:
        for named in place.glob("*.dist-info/direct_url.json"):
            with suppress(OSError, ValueError):
                found = json.loads(named.read_bytes())
                if found.get("dir_info", {}).get("editable"):
                    yield unquote(urlsplit(found["url"]).path)
