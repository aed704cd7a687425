"""Split by group: rows that share a value of a column are never in two splits."""

from __future__ import annotations

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.rows import (
    MAX_NAMED,
    TEST,
    Codes,
    Indices,
    Rows,
    as_splits,
    key_of,
    numbered,
    shares_of,
)

WEIGHED_ONE_BY_ONE = 20_000
"""Groups, the largest ones, that are put where they are missing most; the rest, all small, is dealt out by number."""
CLASSES_BALANCED = 50
MAX_CHAINED = 0.5
"""Share of the rows that equal rows may chain into one group out of several."""


def by_group(rows: Rows, section: SplitSection) -> Codes:
    """Return the split of each row, (rows,): whole groups, shares as near as possible, of every class if stratified.

    Groups that share an equal row stay together too, so that no copy of a training row is ever tested on. The test
    split is the same in every fold, and without folds.

    Raises:
        DataError: an empty cell, or too few groups.
    """
    groups = together(rows, key_of(rows, section))
    counts = counts_of(rows, groups, section)
    return in_folds(balanced(counts, shares_of(section), section.seed), counts, section)[groups]


def counts_of(rows: Rows, groups: Indices, section: SplitSection) -> Array:
    """Return the rows of each group by class, (groups, classes). Raises DataError for too few groups."""
    counts = _counts(groups, rows.labels if section.stratify else None)
    wanted = [share > 0 for share in shares_of(section)]
    if len(counts) < max(sum(wanted), (section.folds or 0) + wanted[TEST]):
        raise DataError(
            f"Column {section.key!r} has {len(counts)} group{'s' * (len(counts) != 1)} that share no equal row: too "
            f"few to divide into {section.folds or sum(wanted)} parts.",
            remedy="Choose a column with more values, fewer data.split.folds, or split otherwise: "
            "configure(changes={'data.split': null}).",
            details={"column": section.key, "groups": len(counts)},
        )
    return counts


def in_folds(splits: Codes, counts: Array, section: SplitSection) -> Codes:
    """Return the splits of groups, (groups,), where there are folds with all but the test's groups divided by these."""
    if section.folds is None:
        return splits
    kept, shares = np.flatnonzero(splits != TEST), [1.0 / section.folds] * section.folds
    splits[kept] = as_splits(balanced(counts[kept], shares, section.seed), section.fold)
    return splits


def together(rows: Rows, key: Array) -> Indices:
    """Return the number of the group of each row, (rows,): one for values that share an equal row. Raises DataError."""
    groups = numbered(key)[1]
    if isinstance(rows.units, int):
        return groups
    lowest = np.arange(int(groups.max(initial=-1)) + 1)
    while True:  # as often as groups are chained by equal rows, which is rarely more than once
        of_units = np.full(rows.distinct, len(lowest))
        np.minimum.at(of_units, rows.units, lowest[groups])
        found = lowest.copy()
        np.minimum.at(found, groups, of_units[rows.units])
        found = found[found]
        if (found == lowest).all():
            break
        lowest = found
    _require_loose(lowest[groups], groups, rows.units)
    return np.unique(lowest[groups], return_inverse=True)[1].reshape(-1)


def _require_loose(chained: Indices, groups: Indices, units: Indices) -> None:
    """Refuse groups of which equal rows make one that holds most of the data."""
    sizes = np.bincount(chained)
    inside = chained == sizes.argmax()
    merged = len(np.unique(groups[inside]))
    if merged > 1 and sizes.max() > MAX_CHAINED * len(groups):
        copies = np.flatnonzero(inside & (np.bincount(units)[units] > 1))
        named = ", ".join(map(str, copies[:MAX_NAMED].tolist()))
        raise DataError(
            f"Equal rows chain {merged} of {groups.max() + 1} groups together, with {sizes.max()} of {len(groups)} "
            f"rows: equal rows stay in one split, and so do groups (counted from 0: rows {named}).",
            remedy="Give rows a column more that tells them apart (data.args.features), take the copies out of the "
            "file, or ask the user for groups that equal rows are in: data.split.group.",
            details={"groups": merged, "rows": copies[:20].tolist()},
        )


def balanced(counts: Array, shares: list[float], seed: int) -> Codes:
    """Return the part of each group, (groups,): large ones first, each where the most is missing of its classes.

    Args:
        counts: rows of each group by class, (groups, classes).
        shares: of the parts; one of 0 gets nothing.
        seed: decides between equals.
    """
    generator = np.random.default_rng([seed, len(counts)])
    drawn = generator.permutation(len(counts))
    order = drawn[np.argsort(-counts[drawn].sum(axis=1), kind="stable")]
    open_parts = np.flatnonzero(np.array(shares) > 0)
    wanted = np.array(shares)[open_parts, None] * counts.sum(axis=0) + 1e-9
    held = np.zeros_like(wanted)
    parts = np.zeros(len(counts), dtype=np.int8)
    first = order[:WEIGHED_ONE_BY_ONE]
    for place, group in enumerate(first):
        cost = ((2 * (held - wanted) + counts[group]) * counts[group] / wanted).sum(axis=1)
        empty = held.sum(axis=1) == 0
        if len(order) - place <= empty.sum():  # as many groups are left as parts are empty
            cost[~empty] = np.inf
        part = int(cost.argmin())
        held[part] += counts[group]
        parts[group] = open_parts[part]
    rest = generator.permutation(order[WEIGHED_ONE_BY_ONE:])
    missing = np.maximum((wanted - held).sum(axis=1), 0)
    edges = np.cumsum(missing) / max(missing.sum(), 1e-9)
    places = np.cumsum(counts[rest].sum(axis=1)) / max(counts[rest].sum(), 1)
    parts[rest] = open_parts[np.minimum(np.searchsorted(edges, places), len(open_parts) - 1)]
    return parts


def _counts(groups: Indices, labels: Indices | None) -> Array:
    """Return the rows of each group by class, (groups, classes); one class where there are none, or too many."""
    number = int(groups.max(initial=-1)) + 1
    if labels is not None:
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) <= CLASSES_BALANCED:
            flat = np.bincount(groups * len(classes) + codes.reshape(-1), minlength=number * len(classes))
            return flat.reshape(number, len(classes)).astype(float)
    return np.bincount(groups, minlength=number).astype(float)[:, None]
