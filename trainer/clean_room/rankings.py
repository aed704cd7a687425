"""Metrics of how scores order the rows of each group, the documents of a query: of each group its own, then their mean.

The mean is over the groups that have a relevant row, one whose target is above 0, as trec_eval averages: of others no
order is better. Gains are the targets themselves, as in scikit-learn's `ndcg_score` (LightGBM's are 2^target - 1), and
a row's place is discounted by log2(1 + place) (Järvelin and Kekäläinen 2002, 10.1145/582415.582418). Of equal scores
each metric is its mean over all their orders (McSherry and Najork 2008, 10.1007/978-3-540-78646-7_38): a program that
answers all rows alike has what chance gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .ranks import scores as ranked

Array = np.ndarray[Any, Any]
CUTOFFS = (5, 10)
"""Places down to which a metric looks."""


def scores(outputs: Array, targets: Array) -> Array:
    """Return one score a row, (rows,); of two classes the difference of their logits.

    Raises:
        ValueError: outputs or targets are several a row, or a target is below 0.
    """
    found = ranked(outputs, targets)
    if found.size != len(targets) or targets.size != len(targets):
        raise ValueError("it orders rows by one score each, and a row has one target")
    if (targets < 0).any():
        raise ValueError("a target is how relevant a row is, and one is below 0")
    return found.reshape(-1).astype(float, copy=False)


@dataclass(frozen=True)
class Ordered:
    """Rows by group, within it by falling score; rows of one group and one score are a block."""

    gains: Array
    """Targets, (rows,)."""
    group: Array
    """Number of each row's group, (rows,)."""
    block: Array
    """Number of each row's block, (rows,)."""

    @classmethod
    def of(cls, scored: Array, targets: Array, groups: Array) -> Ordered:
        """Order rows by their scores, (rows,), within groups by number, from 0."""
        order = np.lexsort((-scored, groups))
        group, score = groups[order], scored[order]
        block = np.cumsum(_begins(group) | _begins(score)) - 1
        return cls(targets[order], group, block)

    @property
    def place(self) -> Array:
        """Place in the group, from 0, (rows,)."""
        return _places(self.group)

    @property
    def relevant(self) -> Array:
        """Whether each row is, (rows,)."""
        return self.gains > 0

    def mean_of_block(self, values: Array) -> Array:
        """Return the mean over each row's block of values, (rows,)."""
        means = np.bincount(self.block, values) / np.bincount(self.block)
        return np.asarray(means[self.block])

    def sum_of_group(self, values: Array) -> Array:
        """Return the sum over each group, (groups,), of values (rows,)."""
        return np.bincount(self.group, values)


def _begins(values: Array) -> Array:
    return np.append(True, values[1:] != values[:-1])


def _places(sorted_numbers: Array) -> Array:
    """Return each row's place among those of its number, from 0, (rows,)."""
    starts = np.flatnonzero(_begins(sorted_numbers))
    return np.asarray(np.arange(len(sorted_numbers)) - starts[np.cumsum(_begins(sorted_numbers)) - 1])


def _ndcg(most: int, rows: Ordered) -> Array:
    """Return the discounted gain by that of the best order, of the first places, (groups,)."""
    weights = np.where(rows.place < most, 1.0 / np.log2(2.0 + rows.place), 0.0)
    best = rows.gains[np.lexsort((-rows.gains, rows.group))]
    return rows.sum_of_group(weights * rows.mean_of_block(rows.gains)) / rows.sum_of_group(weights * best)


def _recall(most: int, rows: Ordered) -> Array:
    """Return the share of the relevant rows that is among the first, (groups,)."""
    found = (rows.place < most) * rows.mean_of_block(rows.relevant)
    return rows.sum_of_group(found) / rows.sum_of_group(rows.relevant)


def _mean_precision(rows: Ordered) -> Array:
    """Return the mean over the relevant rows of the precision down to each, (groups,)."""
    sizes, relevant = np.bincount(rows.block)[rows.block], rows.mean_of_block(rows.relevant)
    # A row's block has, beside it, this share of relevant rows where it is one itself.
    others = (relevant * sizes - 1.0) / np.maximum(sizes - 1, 1)
    hits = _relevant_before(rows) + 1.0 + _places(rows.block) * others
    return rows.sum_of_group(relevant * hits / (rows.place + 1.0)) / rows.sum_of_group(rows.relevant)


def _reciprocal_rank(rows: Ordered) -> Array:
    """Return 1 / the place of the first relevant row, (groups,)."""
    first = (_relevant_before(rows) == 0) & (rows.mean_of_block(rows.relevant) > 0)  # blocks, one a group
    found = np.zeros(int(rows.group[-1]) + 1)
    at = np.flatnonzero(first)
    for block in np.split(at, np.flatnonzero(np.diff(rows.block[at])) + 1):
        chances = _first_at(len(block), int(rows.relevant[block].sum()))
        found[rows.group[block[0]]] = (chances / (rows.place[block] + 1.0)).sum()
    return found


def _first_at(size: int, relevant: int) -> Array:
    """Return the chance that the first relevant one of so many rows in any order stands at each place, (size,)."""
    left = size - np.arange(size)
    still = np.append(1.0, np.cumprod(np.maximum(left - relevant, 0) / left)[:-1])
    return np.asarray(still * np.minimum(relevant / left, 1.0))


def _relevant_before(rows: Ordered) -> Array:
    """Return how many relevant rows of the group stand before each row's block, (rows,)."""
    before = np.cumsum(rows.relevant) - rows.relevant
    starts_of_block, starts_of_group = (np.flatnonzero(_begins(each)) for each in (rows.block, rows.group))
    return np.asarray(before[starts_of_block][rows.block] - before[starts_of_group][rows.group])


OF_GROUPS: dict[str, Callable[[Ordered], Array]] = {
    **{f"group_ndcg_at_{most}": partial(_ndcg, most) for most in CUTOFFS},
    "group_mrr": _reciprocal_rank,
    **{f"group_recall_at_{most}": partial(_recall, most) for most in CUTOFFS},
    "group_map": _mean_precision,
}
"""Value of each group, (groups,), by the metric's name."""


@np.errstate(divide="ignore", invalid="ignore")
def terms(name: str, scored: Array, targets: Array, groups: Array | None) -> Array:
    """Return each row's group's value and its weight, (rows, 2): whole groups of rows keep what their mean needs.

    A weight is 1 / the group's rows, and 0 where none of these is relevant.

    Args:
        name: of OF_GROUPS.
        scored: what `scores` returned, (rows,).
        targets: how relevant each row is, 0 or more.
        groups: number of each row's group, (rows,).

    Raises:
        ValueError: the rows have no groups, or others.
    """
    if groups is None or groups.shape != scored.shape:
        raise ValueError("it is of the rows of a group, and no data.split by group says which group these are of")
    if not len(scored):
        return np.zeros((0, 2))
    if np.isnan(scored).any():
        return np.full((len(scored), 2), math.nan)
    numbers = np.unique(groups, return_inverse=True)[1].reshape(-1)
    values = OF_GROUPS[name](Ordered.of(scored, targets.reshape(-1).astype(float), numbers))
    counts = np.bincount(numbers, targets.reshape(-1) > 0) > 0
    each = np.stack([np.where(counts, values, 0.0), counts / np.bincount(numbers)], axis=1)
    return np.asarray(each[numbers])


def mean_of_groups(found: Array, targets: Array) -> float:  # noqa: ARG001 - the form of a metric's second step
    """Return the mean over the groups that have a relevant row, of `terms`; NaN where none has."""
    values, weights = found.T
    return float((values * weights).sum() / weights.sum()) if len(found) and weights.sum() != 0 else math.nan


def problem_of(targets: Array) -> str:
    """Return why these targets leave nothing to order; empty where they do not."""
    return "" if (targets > 0).any() else f"none of {len(targets)} rows is relevant: no target is above 0"
