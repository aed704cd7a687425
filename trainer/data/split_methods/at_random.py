"""Random split: each split gets its share of every class."""

from __future__ import annotations

import numpy as np

from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.rows import TEST, Codes, Indices, Rows, as_splits, shares_of


def at_random(rows: Rows, section: SplitSection) -> Codes:
    """Return the split of each row, (rows,). With folds the test split is the same as without."""
    classes = rows.of_units(rows.labels) if rows.labels is not None and section.stratify else None
    splits = deal(rows.distinct, classes, shares_of(section), section.seed)
    if section.folds is not None:
        kept = np.flatnonzero(splits != TEST)
        known = None if classes is None else classes[kept]
        splits[kept] = as_splits(
            deal(len(kept), known, [1.0 / section.folds] * section.folds, section.seed), section.fold
        )
    return rows.of_rows(splits)


def deal(count: int, classes: Indices | None, shares: list[float], seed: int) -> Codes:
    """Return the part of each unit, (units,), by shares within each class.

    Args:
        count: units.
        classes: of the units, (units,); None: not told apart.
        shares: of the parts; the first gets what rounding leaves.
        seed: of the draws.
    """
    generator = np.random.default_rng([seed, count])
    parts = np.zeros(count, dtype=np.int8)
    owed = np.zeros(len(shares))  # rows that rounding has withheld from each part so far: small classes share them
    for members in _by_class(count, classes):
        generator.shuffle(members)
        owed += np.array(shares) * len(members)
        wanted = np.maximum(np.round(owed), 0).astype(int)
        wanted[0] = max(len(members) - wanted[1:].sum(), 0)
        edges = np.minimum(np.cumsum(wanted), len(members))
        edges[-1] = len(members)
        counts = np.diff(edges, prepend=0)
        owed -= counts
        parts[members] = np.repeat(np.arange(len(shares), dtype=np.int8), counts)
    return parts


def _by_class(count: int, classes: Indices | None) -> list[Indices]:
    """Return the units of each class, in order of the classes."""
    width = np.int32 if count < 2**31 else np.int64
    if classes is None:
        return [np.arange(count, dtype=width)]
    order = np.argsort(classes, kind="stable").astype(width)
    sizes = np.unique(classes, return_counts=True)[1]
    return np.split(order, np.cumsum(sizes)[:-1])
