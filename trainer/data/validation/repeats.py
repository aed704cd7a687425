"""Repeated rows of a table of any size: a hash of each row, 8 bytes, sorted in place. A set takes five times that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from trainwright.trainer.data.validation.check import ROW, Context

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

MOST_IN_A_SET = 1 << 22
"""Rows whose different values polars counts in its one pass over the rows; of more, they are counted here."""
ROWS_AT_ONCE = 1 << 16
HASH = "row"
MOST_SAMPLED = 200_000
FEW_VALUES, SHARE_OF_FEW = 25, 0.1
"""Different values of a column that holds categories or counts: so many, or that share of the rows."""
BEYOND_COINCIDENCE = 2.5
"""Times the equal pairs that independent columns would give."""
TWICE = 0.9
"""Share of the different rows that occur an even number of times in a file that was pasted twice."""

Hashes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"


def row_hash(columns: list[str]) -> pl.Expr:
    """Return a 64-bit number of each row that equal rows share; others by a chance of 1 in 10^5 at 10^7 rows."""
    import polars as pl

    return pl.struct(columns).hash()


def repeated(context: Context, columns: list[str], *, filled: bool = False) -> Hashes:
    """Return the hash of every row that repeats another one in these columns, (repeating rows,), sorted.

    Args:
        filled: leave out rows with an empty cell there.
    """
    import numpy as np
    import polars as pl

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
    import numpy as np

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


def are_natural(context: Context, columns: list[str]) -> bool:
    """Return whether rows repeat because their columns have few values, rather than by having been copied."""
    rows = context.frame.select(columns).head(MOST_SAMPLED).collect()
    times = rows.select(row_hash(columns).alias(HASH)).group_by(HASH).len()["len"].to_numpy().astype(float)
    few = max(FEW_VALUES, SHARE_OF_FEW * rows.height)
    if all(rows[name].n_unique() <= few for name in columns):
        return bool((times % 2 == 0).mean() < TWICE)
    expected = rows.height**2 / 2
    for name in columns:
        shares = rows[name].value_counts(name=HASH)[HASH].to_numpy() / rows.height
        expected *= float((shares**2).sum())
    return bool((times * (times - 1) / 2).sum() <= BEYOND_COINCIDENCE * expected)


def _pieces(
    context: Context, columns: list[str], *, filled: bool
) -> Iterator[tuple[np.ndarray[Any, np.dtype[np.int64]], Hashes]]:
    """Yield numbers and hashes of some rows at a time, in order."""
    import polars as pl

    rows = context.numbered
    if filled:
        rows = rows.filter(pl.col(name).is_not_null() for name in columns)
    asked = rows.select(ROW, row_hash(columns).alias(HASH))
    for batch in asked.collect_batches(chunk_size=ROWS_AT_ONCE, engine="streaming"):
        yield batch[ROW].to_numpy(), batch[HASH].to_numpy()
