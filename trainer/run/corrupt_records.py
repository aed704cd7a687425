"""Torn records: what a damaged file of a run still holds, before the damage and after it, and where it is torn.

For looking at a run. No decision depends on it: gates read a record whole, or refuse it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from trainwright.trainer.run.digests import METRICS
from trainwright.trainer.run.directory import EVENTS, RunDirectory
from trainwright.trainer.run.metrics import KEYS, MetricStore
from trainwright.trainer.run.status import read_log

MAX_NAMED = 5
UPWARD, DOWNWARD = "ORDER BY step", "ORDER BY step DESC"


class TornMetrics(MetricStore):
    """Reads the rows that can be read."""

    wide = 0
    """Block by block, so that one damaged block costs no other."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.torn: dict[str, str] = {}
        """Series → where it is torn, in words."""

    def _read(self, query: str, arguments: Sequence[object]) -> list[tuple[object, ...]]:
        if not self.path.exists():
            return []
        try:
            if self._reader is not None:
                return self._around(self._reader, query, arguments)
            with closing(self._opened()) as connection:
                return self._around(connection, query, arguments)
        except sqlite3.DatabaseError as error:  # it is no database at all
            self.torn[""] = f"cannot be read: {error}"
            return []

    def _around(
        self, connection: sqlite3.Connection, query: str, arguments: Sequence[object]
    ) -> list[tuple[object, ...]]:
        rows, is_whole = _rows(connection, query, arguments)
        if is_whole:
            return rows
        if query == KEYS:
            return sorted({*rows, *_rows(connection, KEYS.replace("MIN", "MAX").replace(">", "<"), ())[0]}, key=str)
        before = f"after step {rows[-1][0]}" if rows else "from its first step on"
        if query.endswith(UPWARD):
            after, _ = _rows(connection, query.replace(UPWARD, DOWNWARD), arguments)
            after = [row for row in reversed(after) if not rows or row[0] > rows[-1][0]]  # type: ignore[operator]
            self.torn[str(arguments[0])] = f"{before}, up to step {after[0][0]}" if after else before
            return rows + after
        self.torn.setdefault(str(arguments[0]) if arguments else "", "in part")
        return rows


def _rows(
    connection: sqlite3.Connection, query: str, arguments: Sequence[object]
) -> tuple[list[tuple[object, ...]], bool]:
    """Return the rows up to the first damage, and whether there was none."""
    rows: list[tuple[object, ...]] = []
    try:
        for row in connection.execute(query, arguments):
            rows.append(row)  # noqa: PERF402 - those before an error are kept
    except sqlite3.DatabaseError as error:
        return rows, "no such table" in str(error)
    return rows, True


def damage_of(run: RunDirectory, metrics: TornMetrics | None = None) -> list[str]:
    """Return in words which lines of the run's log and which series, of those that were read, are damaged."""
    found = []
    _, torn = read_log(run.path / EVENTS)
    if torn:
        named = ", ".join(map(str, torn[:MAX_NAMED])) + (" …" if len(torn) > MAX_NAMED else "")
        found.append(f"{EVENTS}: damaged at line {named}; the lines before and after it are read.")
    series = sorted(metrics.torn.items()) if metrics is not None else []
    return found + [f"{METRICS}: {key or 'the file'} is torn {where}." for key, where in series[:MAX_NAMED]]
