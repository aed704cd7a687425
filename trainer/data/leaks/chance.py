"""Chance: whether as many pairs of equal rows in two splits are no more than dealing rows out at random parts."""

from __future__ import annotations


def probability(alike: int, near: int, first: int, second: int) -> float:
    """Return how probable it is that chance parts as many pairs of almost equal samples, or more.

    Args:
        alike: inputs of the first split with an almost equal one in the second.
        near: inputs of the first split with another one of the same split near them, two to a pair.
        first, second: inputs of the splits.
    """
    from scipy import stats

    if not alike:
        return 1.0
    parted = 2 * second / (first + 2 * second)  # of the pairs that the first split has a part in
    return float(stats.binom.sf(alike - 1, alike + near // 2, parted))
