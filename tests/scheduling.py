"""The order of tests and the units in which two processes share them.

A fork of a process in which polars has worked never ends: its threads do not survive the fork. So the tests that fork
come before those that use polars, in every file; and a file that has both is two units of work, or the process that
takes the whole file first could not fork for the next one.
"""

from __future__ import annotations

import sys
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

FORKING = frozenset({"work", "begin", "group_work", "digits_run", "ended", "trained"})
"""Fixtures that fork this process to train."""


def place_by_forks(item: pytest.Item) -> int:
    """Return 0 for a test of a file without polars, 1 for one that forks in a file that uses it, 2 for the others."""
    if not _uses_polars(item.path):
        return 0
    forks = item.get_closest_marker("forks") or not FORKING.isdisjoint(getattr(item, "fixturenames", ()))
    return 1 if forks else 2


def polars_has_worked() -> bool:
    """Return whether polars has threads in this process: it starts them with its first query."""
    threads = Path("/proc/self/task").glob("*/comm") if "polars" in sys.modules else ()
    return any("polars-0" in _name_of(path) for path in threads)


def _name_of(thread: Path) -> str:
    try:
        return thread.read_text()
    except OSError:  # it has ended since it was listed
        return ""


@cache
def _uses_polars(path: Path) -> bool:
    place, text = path.as_posix(), path.read_text(encoding="utf-8")
    return "trainer/data/" in place or "polars" in text or ".scan(" in text


class Blocks(LoadFileScheduling):  # type: ignore[misc]
    """The sharing-out of tests by blocks: tests of one file that stand side by side in the order of the collection."""

    blocks: dict[str, str]

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Note the block of each test; all processes collect the same tests in the same order."""
        by_file = groupby(collection, key=super()._split_scope)
        self.blocks = {test: f"{file} {number}" for number, (file, tests) in enumerate(by_file) for test in tests}
        super().add_node_collection(node, collection)

    def _split_scope(self, nodeid: str) -> str:
        return self.blocks[nodeid]
