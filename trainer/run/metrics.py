"""`metrics.sqlite`: every number a run recorded, one row per (key, step).

Keys: `train/loss`, `train/gradient_norm`, `train/learning_rate` at every optimizer step, and where the run clips
`train/applied_gradient_norm`, the norm that reached the optimizer; `train/epoch_loss`,
`train/<metric>`, `validation/loss`, `validation/<metric>` at the last step of an epoch; `epoch` (number of the
epoch that ended at that step); `throughput/samples_per_second`, `throughput/data_wait_fraction`,
`layers/<measure>/<name>` and `watch/<name>` at inspected steps; and now and then of the machine:
`system/cpu_percent`, `system/memory_bytes` (the process and its workers), `system/process_memory_bytes` (the process
alone), `system/disk_free_bytes`; on GPUs `system/gpu_percent`, `system/gpu_percent_lowest`, `system/gpu_memory_bytes`
(over all of the run's), `system/gpu_memory_allocated_bytes`, `system/gpu_memory_reserved_bytes` (of this process's
allocator), and for each, numbered from 0, `system/gpu0_percent`, `system/gpu0_memory_bytes`, `system/gpu0_power_watts`,
`system/gpu0_temperature_celsius`, `system/gpu0_throttled` (0 to 1: by heat or power brake), `system/gpu0_power_capped`.
Steps that a resumed run replays overwrite their rows. NaN and infinities are stored as text ('nan', 'inf').
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, Self

from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run.blocks import Block, kept_blocks
from trainwright.trainer.run.digests import SeriesDigests

_SCHEMA = """
CREATE TABLE IF NOT EXISTS metrics (
    key TEXT NOT NULL, step INTEGER NOT NULL, value REAL, time REAL NOT NULL,
    PRIMARY KEY (key, step)
) WITHOUT ROWID
"""
_NOT_FINITE = "typeof(value) <> 'real'"
_INDEX = f"CREATE INDEX IF NOT EXISTS not_finite ON metrics (key, step) WHERE {_NOT_FINITE}"
"""Small where all is well: no search through a million points when there are none. Earlier files lack it."""
KEYS = """
WITH RECURSIVE found(key) AS (
    SELECT MIN(key) FROM metrics UNION ALL
    SELECT (SELECT MIN(key) FROM metrics WHERE key > found.key) FROM found WHERE found.key IS NOT NULL
) SELECT key FROM found WHERE key IS NOT NULL ORDER BY key
"""
MANY = 50_000
"""Rows that are read at once."""
WIDE = 20_000
"""Steps from which on buckets are read block by block, in their stored order, and kept for the next look."""
_ENCODED = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Point(NamedTuple):
    """One recorded value: `time` in Unix seconds."""

    step: int
    value: float
    time: float


class MetricStore:
    """Reads and writes the metrics of one run. One writer (the worker), any number of readers (WAL)."""

    wide = WIDE

    def __init__(self, path: Path, *, writer: bool = False, note: Callable[[str], None] | None = None) -> None:
        """Open the file.

        Args:
            note: called with the digest of all rows, old and new, when a writer closes.
        """
        self.path = path
        self._writer: sqlite3.Connection | None = None
        self._note, self._digests = note, SeriesDigests()
        self._reader: sqlite3.Connection | None = None
        if writer:
            self._writer = sqlite3.connect(path, timeout=30.0, isolation_level=None)
            self._writer.execute("PRAGMA journal_mode=WAL")
            self._writer.execute("PRAGMA synchronous=NORMAL")
            self._writer.execute(_SCHEMA)
            self._writer.execute(_INDEX)
            self._take_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the writer, folding the log into the file."""
        if self._writer is not None:
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._writer.close()
            self._writer = None
            if self._note is not None:
                self._note(self._digests.combined())

    def write(self, rows: Iterable[tuple[str, int, float, float]]) -> None:
        """Insert or replace (key, step, value, time) rows in one transaction. Raises sqlite3.Error."""
        assert self._writer is not None, "opened for reading"  # noqa: S101 - a programming error, not input
        rows = list(rows)
        encoded = [(key, step, _encode(value), time) for key, step, value, time in rows]
        self._writer.execute("BEGIN")
        self._writer.executemany("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?, ?)", encoded)
        self._writer.execute("COMMIT")
        try:
            for key, step, value, time in rows:
                self._digests.add(key, step, float(value), float(time))
        except ValueError:  # a step before the last one: read the rows as they are now
            self._take_up()

    def forget_after(self, step: int) -> None:
        """Drop rows past `step`: a resumed run will record them again."""
        assert self._writer is not None, "opened for reading"  # noqa: S101 - a programming error, not input
        self._writer.execute("DELETE FROM metrics WHERE step > ?", (step,))
        self._take_up()

    def _take_up(self) -> None:
        """Add the rows in the file to the digest: an earlier attempt's."""
        self._digests = SeriesDigests()
        for key, points in self.all_points():
            self._digests.add_all(key, points)

    def keys(self) -> list[str]:
        """Return the recorded keys, sorted."""
        return [str(row[0]) for row in self._read(KEYS, ())]

    def latest(self) -> dict[str, Point]:
        """Return the last point of every key."""
        return {key: point for key in self.keys() if (point := self.last(key)) is not None}

    def last(self, key: str) -> Point | None:
        """Return the last point of one key, or None."""
        query = "SELECT step, value, time FROM metrics WHERE key = ? ORDER BY step DESC LIMIT 1"
        points = self._points(query, (key,))
        return points[0] if points else None

    def at(self, key: str, step: int) -> Point | None:
        """Return the point of one key at a step, or None."""
        points = self._points("SELECT step, value, time FROM metrics WHERE key = ? AND step = ?", (key, step))
        return points[0] if points else None

    def newest(self, key: str, step: int) -> Point | None:
        """Return the last point of one key at a step or before it, or None."""
        query = "SELECT step, value, time FROM metrics WHERE key = ? AND step <= ? ORDER BY step DESC LIMIT 1"
        points = self._points(query, (key, step))
        return points[0] if points else None

    def series(self, key: str, *, after_step: int = -1) -> list[Point]:
        """Return all points of one key in order of step."""
        query = "SELECT step, value, time FROM metrics WHERE key = ? AND step > ? ORDER BY step"
        return self._points(query, (key, after_step))

    def next_points(self, key: str, after_step: int, count: int) -> list[Point]:
        """Return the first `count` points of one key after a step, in order of step."""
        query = "SELECT step, value, time FROM metrics WHERE key = ? AND step > ? ORDER BY step LIMIT ?"
        return self._points(query, (key, after_step, count))

    def all_points(self) -> Iterator[tuple[str, list[tuple[int, float, float]]]]:
        """Give the points of every key in order of step, many at a time: (key, [(step, value, time), …])."""
        query = "SELECT key, step, value, time FROM metrics ORDER BY key, step"
        with self.reading():
            for rows in self._read_many(query):
                for key, group in groupby(rows, itemgetter(0)):
                    try:
                        yield str(key), [_checked(row[1:]) for row in group]
                    except (KeyError, TypeError, ValueError) as error:  # a value that MetricStore never writes
                        raise _damaged(self.path, error) from error

    def _read_many(self, query: str) -> Iterator[list[tuple[object, ...]]]:
        if self._reader is None:
            return
        try:
            cursor = self._reader.execute(query)
            while rows := cursor.fetchmany(MANY):
                yield rows
        except sqlite3.DatabaseError as error:
            if "no such table" not in str(error):  # the worker has made the file and not yet the table
                raise _damaged(self.path, error) from error

    def head(self, key: str, count: int) -> list[Point]:
        """Return the first `count` points of one key in order of step."""
        query = "SELECT step, value, time FROM metrics WHERE key = ? ORDER BY step LIMIT ?"
        return self._points(query, (key, count))

    def tail(self, key: str, count: int) -> list[Point]:
        """Return the last `count` points of one key in order of step."""
        query = "SELECT step, value, time FROM metrics WHERE key = ? ORDER BY step DESC LIMIT ?"
        return self._points(query, (key, count))[::-1]

    def count(self, key: str) -> int:
        """Return the number of points of one key."""
        rows = self._read("SELECT COUNT(*) FROM metrics WHERE key = ?", (key,))
        return int(str(rows[0][0])) if rows else 0

    def count_after(self, key: str, step: int) -> int:
        """Return the number of points of one key past a step."""
        rows = self._read("SELECT COUNT(*) FROM metrics WHERE key = ? AND step > ?", (key, step))
        return int(str(rows[0][0])) if rows else 0

    def non_finite(self, key: str) -> list[Point]:
        """Return the points of one key that are NaN or infinite, in order of step."""
        with self.reading():
            has_index = self._read("SELECT 1 FROM sqlite_master WHERE name = 'not_finite'", ())
            which = "INDEXED BY not_finite " if has_index else ""  # else it may read every row all the same
            query = f"SELECT step, value, time FROM metrics {which}WHERE key = ? AND {_NOT_FINITE} ORDER BY step"  # noqa: S608
            return self._points(query, (key,))

    def buckets(self, key: str, count: int) -> list[tuple[int, float, float, float]]:
        """Return at most `count` buckets (last step, mean, lowest, highest) over the finite values of a key."""
        ends = self._read(
            "SELECT (SELECT MIN(step) FROM metrics WHERE key = ?1), (SELECT MAX(step) FROM metrics WHERE key = ?1)",
            (key,),
        )
        try:
            low, high = (int(end) for end in ends[0]) if ends and None not in ends[0] else (0, -1)  # type: ignore[call-overload]
        except (TypeError, ValueError) as error:
            raise _damaged(self.path, error) from error
        if high - low >= self.wide:
            return self._wide_buckets(key, count, low, high)
        query = """
            SELECT MAX(step), AVG(value), MIN(value), MAX(value) FROM metrics,
                (SELECT MIN(step) AS low, MAX(step) - MIN(step) + 1 AS width FROM metrics WHERE key = ?1)
            WHERE key = ?1 AND typeof(value) = 'real' GROUP BY (step - low) * ?2 / width ORDER BY 1
        """
        try:
            return [(int(s), float(a), float(b), float(c)) for s, a, b, c in self._read(query, (key, count))]  # type: ignore[call-overload, arg-type]
        except (TypeError, ValueError) as error:  # a step that is no number: not written by MetricStore
            raise _damaged(self.path, error) from error

    def _wide_buckets(self, key: str, count: int, low: int, high: int) -> list[tuple[int, float, float, float]]:
        """Buckets of a power of two of steps, aligned: those of an earlier look are kept, and only new steps read."""
        with self.reading(), kept_blocks(self.path, key, self._identity(), high, self._moment_of(key)) as blocks:
            blocks.extend(low, high, lambda first, end: self._block(key, first, end))
            return list(blocks.at_most(count))

    def _block(self, key: str, first: int, end: int) -> Block | None:
        query = """
            SELECT MAX(step), COUNT(*), TOTAL(value), MIN(value), MAX(value) FROM metrics
            WHERE key = ? AND step >= ? AND step < ? AND typeof(value) = 'real'
        """
        rows = self._read(query, (key, first, end))
        if not rows or rows[0][0] is None:
            return None
        step, values, total, lowest, highest = rows[0]
        try:
            return Block(int(step), int(values), float(total), float(lowest), float(highest))  # type: ignore[call-overload, arg-type]
        except (TypeError, ValueError) as error:
            raise _damaged(self.path, error) from error

    def _identity(self) -> tuple[int, ...]:
        """What stays the same while rows are only appended: of a file without a writer's log, everything."""
        found, log = self.path.stat(), self.path.with_name(f"{self.path.name}-wal")
        if log.exists() and log.stat().st_size:
            return (found.st_dev, found.st_ino)
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def _moment_of(self, key: str) -> Callable[[int], float | None]:
        """Return what gives the moment at which a step was recorded: a step that is recorded again has a later one."""

        def moment(step: int) -> float | None:
            point = self.at(key, step)
            return point.time if point is not None else None

        return moment

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep the file open over several reads. Raises IntegrityError."""
        if self._reader is not None or not self.path.exists():
            yield
            return
        try:
            self._reader = self._opened()
        except sqlite3.DatabaseError as error:
            raise _damaged(self.path, error) from error
        try:
            yield
        finally:
            reader, self._reader = self._reader, None
            reader.close()

    def _opened(self) -> sqlite3.Connection:
        return sqlite3.connect(f"{self.path.as_uri()}?{self._mode()}", uri=True, timeout=10.0)

    def _points(self, query: str, arguments: Sequence[object]) -> list[Point]:
        try:
            return [_point(row) for row in self._read(query, arguments)]
        except (KeyError, TypeError, ValueError) as error:  # a value that MetricStore never writes
            raise _damaged(self.path, error) from error

    def _mode(self) -> str:
        """In a read-only place (an archive), SQLite must not look for a writer either."""
        return "mode=ro" if os.access(self.path.parent, os.W_OK) else "immutable=1"

    def _read(self, query: str, arguments: Sequence[object]) -> list[tuple[object, ...]]:
        if self._reader is None and not self.path.exists():
            return []
        try:
            if self._reader is not None:
                return self._reader.execute(query, arguments).fetchall()
            with closing(self._opened()) as connection:
                return connection.execute(query, arguments).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []  # the worker has made the file and not yet the table
            raise _damaged(self.path, error) from error
        except sqlite3.DatabaseError as error:
            raise _damaged(self.path, error) from error


def _encode(value: float) -> float | str:
    return value if math.isfinite(value) else str(float(value))


def _checked(row: tuple[object, ...]) -> tuple[int, float, float]:
    step, value, time = row
    if type(value) is float and type(step) is int and type(time) is float:
        return row  # type: ignore[return-value]
    return _point(row)


def _point(row: tuple[object, ...]) -> Point:
    step, value, time = row
    number = _ENCODED[value] if isinstance(value, str) else float(value)  # type: ignore[arg-type]
    return Point(int(step), number, float(time))  # type: ignore[call-overload, arg-type]


def _damaged(path: Path, error: Exception) -> IntegrityError:
    return IntegrityError(
        f"The metrics file {path.name} of run {path.parent.name} cannot be read: {error}.",
        remedy="Start the run again; its record is no longer evidence.",
    )
