"""Natural repeats: whether rows are equal because their columns have few values, or because they were copied.

Rows that are equal by chance are a few of those that are equal in all columns but one; copies have no such rows about
them. Where a share p of all pairs of rows is equal in a column, leaving it out gives 1 / p times the equal pairs if
all of these are chance, and as many as before if all are copies: what is between is a share of each. Where columns go
together (a fare with its class), that counts too few as chance; but then chance repeats rows of common values, and
copying repeats any.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from trainwright.trainer.data.validation.check import CONTENT, ROW, Context

MAX_SAMPLED, MAX_CELLS = 200_000, 10_000_000
"""Rows that are read, drawn at random of more: each pair of rows is as likely to be among them as any other."""
MIN_BY_CHANCE = 0.4
"""Share of the equal pairs that are chance in natural repeats, by the column that says the second most of it."""
MIN_COMMON = 0.7
"""How often a repeated row has commoner values than one that occurs once: 0.5 of copies, 0.78 of the Titanic's rows."""
PASTED, PASTED_SHARE = (2, 3, 5, 7, 11, 13), 0.9
"""Of a file pasted so many times this share of the different rows occurs a multiple of that."""
UNLIKELY = 64
"""To one: that natural counts are all such multiples, or else there are too few different rows to say."""


def are_natural(context: Context, columns: list[str]) -> bool:
    """Return whether rows repeat because their columns have few values, rather than by having been copied.

    Samples that are equal in all of their content are copies. So are rows that only one column calls chance: where
    each thing was measured at several times, all that is known of it is equal but the time. Of a single column only
    numbers repeat by nature.
    """
    if CONTENT in columns:
        return False
    hashes = _sampled(context, columns)
    times = np.unique(hashes.sum(axis=0), return_counts=True)[1]
    unlikely = [number for number in PASTED if float(number) ** min(len(times), 100) >= UNLIKELY]
    if any((times % number == 0).mean() >= PASTED_SHARE for number in unlikely):
        return False
    varying = (hashes != hashes[:, :1]).any(axis=1)
    if varying.sum() < 2:
        return all(context.kinds[columns[place]] != "text" for place in np.flatnonzero(varying))
    shares = np.sort(_by_chance(hashes[varying]))
    return bool(shares[-2] >= MIN_BY_CHANCE or _how_common(hashes[varying]) >= MIN_COMMON)


def _sampled(context: Context, columns: list[str]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return a hash of each cell, (columns, rows), whose sum over the columns is a hash of the row."""
    size = int(context.frame.select(pl.len()).collect(engine="streaming").item())
    most = min(MAX_SAMPLED, MAX_CELLS // len(columns))
    rows = context.numbered
    if size > most:
        rows = rows.filter(pl.col(ROW).hash() % size < most)
    cells = rows.select(pl.col(name).hash(seed=place) for place, name in enumerate(columns)).collect(engine="streaming")
    return cells.to_numpy().T


def _by_chance(hashes: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return what share of the equal pairs is chance, as each column has it, (columns,); each of them varies."""
    rows = hashes.sum(axis=0)
    every, equal = len(rows) * (len(rows) - 1.0), _equal_pairs(rows)
    if not equal:
        return np.zeros(len(hashes))
    left_out = np.array([_equal_pairs(rows - column) for column in hashes])
    expected = np.array([every / max(_equal_pairs(column), 1.0) for column in hashes])
    found: np.ndarray[Any, np.dtype[np.float64]] = (left_out / equal - 1) / (expected - 1)
    return found


def _how_common(hashes: np.ndarray[Any, np.dtype[np.uint64]]) -> float:
    """Return the area under the ROC curve by which the commonness of its values tells a repeated row; 0.5: not."""
    from scipy.stats import mannwhitneyu

    first, times = np.unique(hashes.sum(axis=0), return_index=True, return_counts=True)[1:]
    commonness = np.zeros(len(first))
    for column in hashes[:, first]:
        _, place, count = np.unique(column, return_inverse=True, return_counts=True)
        commonness += np.log(count[place])
    repeated, single = commonness[times > 1], commonness[times == 1]
    if not len(repeated) or not len(single):
        return 0.5
    return float(mannwhitneyu(repeated, single).statistic) / (len(repeated) * len(single))


def _equal_pairs(values: np.ndarray[Any, np.dtype[np.uint64]]) -> float:
    times = np.unique(values, return_counts=True)[1].astype(float)
    return float((times * (times - 1)).sum())
