"""Intervals of 95 % for numbers measured on a sample of a split's rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .metrics import Array

RESAMPLES = 200
FEWEST_GROUPS = 5
MOST_VALUES = 1 << 30
"""Values gone through for one interval at most; beyond it none is given."""
Z = 1.959963984540054
"""Of the normal distribution, 97.5 %."""


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return the interval of a share of `count` independent rows (Wilson 1927)."""
    middle, spread = share + Z**2 / (2 * count), Z * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    scale = 1 + Z**2 / count
    return max((middle - spread) / scale, 0.0), min((middle + spread) / scale, 1.0)


def bootstrap(
    value: Callable[[Array], float], rows: int, values: int, groups: Array | None = None
) -> tuple[float, float] | None:
    """Return the percentiles of a number over resamples of the rows, drawn by a fixed seed (Efron 1979).

    Args:
        value: the number from the indices of a resample, (rows,).
        rows: how many there are.
        values: how many values one computation goes through.
        groups: number of each row's group, (rows,): whole groups are drawn, since rows of one are alike (Davison &
            Hinkley 1997, 3.8). Of fewer than FEWEST_GROUPS nothing is said.
    """
    draws = np.random.default_rng(0)
    units = [np.arange(rows)] if groups is None else [np.flatnonzero(groups == one) for one in np.unique(groups)]
    if values * RESAMPLES > MOST_VALUES or rows < 2 or (groups is not None and len(units) < FEWEST_GROUPS):
        return None

    def resample() -> Array:
        if groups is None:
            return draws.integers(0, rows, rows)
        return np.concatenate([units[one] for one in draws.integers(0, len(units), len(units))])

    found = np.array([value(resample()) for _ in range(RESAMPLES)])
    found = found[np.isfinite(found)]
    if len(found) < RESAMPLES // 2:
        return None
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)
