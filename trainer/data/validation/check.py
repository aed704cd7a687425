"""Check: the aggregates that it asks of the one pass over all rows, and the evaluation of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
import polars as pl

from trainwright.trainer.data.validation.expectations import Expectations
from trainwright.trainer.data.validation.report import NotChecked, Severity, Verdict

ROW = "__row__"
"""Column of row numbers in `Context.numbered`, counted from 0 in the order of the source."""
CONTENT = "__content__"
"""Digest of all values of a sample, beside summaries of wide ones; no column to check, so it has no kind."""
OF_FILES = frozenset({("images", "digest"), ("images", "problem")})
"""Columns by source that describe files to checks of their own: what they hold is no data to expect, or to draw."""


@dataclass(frozen=True)
class Context:
    """All that a family of checks may look at."""

    frame: pl.LazyFrame
    """All rows as they are in the source."""
    kinds: dict[str, str]
    """Kind by column: number, integer, boolean, text, date, other."""
    expectations: Expectations = field(default_factory=Expectations)
    targets: Sequence[str] = ()
    """Columns to predict."""
    task: str | None = None
    """classification, regression, or None where it is not known."""
    reference: pl.LazyFrame | None = None
    """Rows that distributions are compared with."""
    splits: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    """Row numbers of each split, sorted, (rows of the split,) of integers; empty where they are not known."""
    is_sample: bool = False
    """Whether the frame holds only some of the rows."""
    source: str = ""
    """Name of the data's source, or the entry of user code."""
    places: np.ndarray[Any, Any] | None = None
    """Number in the source of each row of the frame, (rows,); None: they are the same."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The source's arguments."""
    split_by: str | None = None
    """Column by which rows are split, which is no input unless it is named as one."""
    grouped_by: str | None = None
    """The same where rows of one value stay in one split."""
    settled: Mapping[str, Any] = field(default_factory=dict)
    """Values of the configuration's section `data`, by dotted key: no remedy sets what is set already."""
    summaries: frozenset[str] = frozenset()
    """Columns that stand for the values of wide samples: different samples may be equal in them, not in CONTENT."""
    unnamed: list[str] = field(default_factory=list)
    """Columns of the source that the frame lacks, because no check could name them."""

    @property
    def numbered(self) -> pl.LazyFrame:
        """All rows with their numbers in the column ROW."""
        return self.frame.with_row_index(ROW).with_columns(pl.col(ROW).cast(pl.Int64))

    def split(self, name: str) -> pl.LazyFrame:
        """Return the rows of a split with their numbers in the column ROW; none where it is not known."""
        places = self.splits.get(name)
        return self.numbered.filter(pl.lit(value=False) if places is None or not len(places) else among(places))


def among(rows: np.ndarray[Any, Any]) -> pl.Expr:
    """Return whether a row's number in the column ROW is one of these (rows,); one is enough."""
    member = np.zeros(int(rows.max()) + 1, dtype=bool)
    member[rows] = True

    def is_member(numbers: pl.Series) -> pl.Series:
        values = numbers.to_numpy()
        inside = values < len(member)
        return pl.Series(inside & member[np.where(inside, values, 0)])

    return pl.col(ROW).map_batches(is_member, return_dtype=pl.Boolean, is_elementwise=True)


@dataclass(frozen=True)
class Finding:
    """Evaluation of a check's aggregates."""

    passed: bool
    value: float | int | str | None = None
    bound: float | int | str | None = None
    count: int = 0
    text: str = ""
    remedy: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    offending: pl.Expr | None = None
    """The rows that break it, where only the values tell which: in place of the check's."""
    column: str | None = None
    """The columns that break it, `x+y`, of a check of several."""


@dataclass(frozen=True)
class Check:
    """A check that needs only aggregates over all rows; those of all checks are computed in one pass."""

    name: str
    column: str | None
    severity: Severity
    asks: Mapping[str, pl.Expr]
    """Aggregates by name; equal names of one column are the same aggregate, and computed once."""
    evaluate: Callable[[Mapping[str, Any]], Finding]
    """From the values of `asks` by name."""
    offending: pl.Expr | None = None
    """True for rows that break it: searched for only where it is not passed."""
    reads: Callable[[], Mapping[str, Any]] | None = None
    """Values beside those of `asks` that are read in a pass of their own, because the one pass could not hold them."""


class Family:
    """A family of checks: a file of `families/`, and one line of the registry `CHECKS`."""

    name: ClassVar[str]

    def planned(self, context: Context) -> Iterable[Check]:  # noqa: ARG002
        """Return the checks that are made in the one pass over all rows."""
        return ()

    def found(self, context: Context) -> Iterable[Verdict | NotChecked]:  # noqa: ARG002
        """Return the verdicts of checks that read the rows in a way of their own, and what these rows leave open."""
        return ()

    def left_out(self, context: Context) -> Iterable[NotChecked]:  # noqa: ARG002
        """Return what the family could check and does not, and why, as is known without reading the rows."""
        return ()


# Repeated rows of a table of any size: a hash of each row, 8 bytes, sorted in place. A set takes five times that.

MAX_IN_A_SET = 1 << 22
"""Rows whose different values polars counts in its one pass over the rows; of more, they are counted here."""
ROWS_AT_ONCE = 1 << 16
HASH = "row"
Hashes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"


def row_hash(columns: list[str]) -> pl.Expr:
    """Return a 64-bit number of each row that equal rows share; others by a chance of 1 in 10^5 at 10^7 rows."""
    return pl.struct(columns).hash()


def repeated(context: Context, columns: list[str], *, filled: bool = False) -> Hashes:
    """Return the hash of every row that repeats another one in these columns, (repeating rows,), sorted.

    Args:
        filled: leave out rows with an empty cell there.
    """
    size = int(context.frame.select(pl.len()).collect(engine="streaming").item())
    hashes, count = np.empty(size, dtype=np.uint64), 0
    for _, found in _pieces(context, columns, filled=filled):
        hashes[count : count + len(found)] = found
        count += len(found)
    hashes = hashes[:count]
    hashes.sort()
    again: Hashes = hashes[1:][hashes[1:] == hashes[:-1]]
    return again


def repeated_rows(context: Context, columns: list[str], most: int, *, filled: bool = False) -> list[int]:
    """Return the numbers of the first rows that repeat an earlier one in these columns."""
    again = np.unique(repeated(context, columns, filled=filled))
    seen = np.zeros(len(again), dtype=bool)
    rows: list[int] = []
    if not len(again):
        return rows
    for numbers, found in _pieces(context, columns, filled=filled):
        places = np.searchsorted(again, found)
        places[places == len(again)] = 0
        for place in np.flatnonzero(again[places] == found).tolist():
            if seen[places[place]]:
                rows.append(int(numbers[place]))
            seen[places[place]] = True
            if len(rows) == most:
                return rows
    return rows


def _pieces(
    context: Context, columns: list[str], *, filled: bool
) -> Iterator[tuple[np.ndarray[Any, np.dtype[np.int64]], Hashes]]:
    """Yield numbers and hashes of some rows at a time, in order."""
    rows = context.numbered
    if filled:
        rows = rows.filter(pl.col(name).is_not_null() for name in columns)
    asked = rows.select(ROW, row_hash(columns).alias(HASH))
    for batch in asked.collect_batches(chunk_size=ROWS_AT_ONCE, engine="streaming"):
        yield batch[ROW].to_numpy(), batch[HASH].to_numpy()
