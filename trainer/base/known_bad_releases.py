"""Releases of packages that were withdrawn for safety: the list, and which of them are installed here.

Nothing is imported to find out: a compromised release runs its intruders' code when it is imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml

from trainwright.trainer.base.plain_yaml import PlainLoader

LIST = Path(__file__).with_name("known_bad_releases.yaml")


@dataclass(frozen=True)
class BadReleases:
    """Releases of one package that must not be installed."""

    package: str
    versions: tuple[str, ...]
    why: str
    source: str
    use: str
    """Releases to take instead."""


@cache
def known_bad_releases() -> tuple[BadReleases, ...]:
    """Return the list."""
    found: list[dict[str, Any]] = yaml.load(LIST.read_text(encoding="utf-8"), Loader=PlainLoader)  # noqa: S506 - a safe loader
    return tuple(BadReleases(**{**entry, "versions": tuple(map(str, entry["versions"]))}) for entry in found)


def installed_bad_releases(path: Sequence[str] | None = None) -> Iterator[tuple[BadReleases, str]]:
    """Yield each listed package that is installed in a listed version, with that version.

    Args:
        path: folders to look through; by default those that Python imports from.
    """
    listed = {entry.package: entry for entry in known_bad_releases()}
    for distribution in distributions() if path is None else distributions(path=list(path)):
        entry = listed.get(str(distribution.name).lower().replace("_", "-"))
        if entry is not None and distribution.version in entry.versions:
            yield entry, distribution.version
