"""An overlay out of the server's own packages, where an environment has the same Python: at once, and offline."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from trainwright.tools.environments.interpreters import Interpreter


def is_alike(target: Interpreter) -> bool:
    """Return whether the interpreter takes the extension modules that the server's own one has."""
    own = (sys.version_info[:2], sysconfig.get_platform(), sysconfig.get_config_var("SOABI") or "")
    fits = not target.image or _release(target.libc) >= _release(platform.libc_ver()[1])
    return fits and own == (target.version[:2], target.platform, target.abi)


def _release(libc: str) -> list[int]:
    return [int(part) for part in libc.split(".") if part.isdecimal()]


def resolved_here(wanted: Iterable[str], present: Mapping[str, str]) -> dict[str, str] | None:
    """Return the releases that meet the requirements: the environment's, and for what it lacks the server's own.

    None where one of them does not meet a requirement, or is in neither.

    Args:
        wanted: requirements, without markers.
        present: versions in the environment, by normalised name.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    queue = [Requirement(text) for text in wanted]
    while queue:
        one = queue.pop()
        name = canonicalize_name(one.name)
        version = present.get(name) or _version(name)
        if version is None or not one.specifier.contains(version, prereleases=True):
            return None
        found[name] = version
        if str(one) not in seen and name not in present:
            queue += _required_by(name, one.extras)
        seen.add(str(one))
    return found


def link_packages(names: Iterable[str], folder: Path) -> None:
    """Put the files of packages of the server's own environment into a folder, as hard links where that is possible.

    Raises OSError.
    """
    for name in names:
        for file in metadata.distribution(name).files or []:
            source, place = Path(str(file.locate())), folder / file
            if ".." in file.parts or not source.is_file():  # scripts, and what was never installed
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source, place)
            except OSError:
                shutil.copyfile(source, place)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _required_by(name: str, extras: set[str]) -> list[Requirement]:
    every = [Requirement(text) for text in metadata.requires(name) or []]
    asked = [{"extra": extra} for extra in (*extras, "")]
    return [one for one in every if one.marker is None or any(one.marker.evaluate(extra) for extra in asked)]
