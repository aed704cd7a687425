"""Intervals of 95 % for numbers measured on a split's rows, which are a sample of what may come."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .counts import Array

RESAMPLES = 200
MIN_UNITS, MIN_ALIKE = 5, 30
"""Rows, or groups, below which nothing is said of others: of any, and of those whose resamples all give the same."""
MAX_UNDEFINED = 0.1
"""Share of resamples without a value, beyond which too few rows decide it: the two of a rare class, say."""
MAX_VALUES, QUICK_VALUES = 1 << 30, 1 << 27
"""Values gone through for one interval at most, of a sample and of all rows; beyond it none is given."""
Z = 1.959963984540054
"""Of the normal distribution, 97.5 %."""


@dataclass(frozen=True)
class Resampling:
    """Rows drawn anew: one by one, or in whole groups, since rows of one are alike (Davison & Hinkley 1997)."""

    rows: int
    is_sample: bool = False
    """Whether they are a sample of a split, whose figures are compared with those of all rows."""
    groups: Array | None = None
    """Number of each row's group, (rows,)."""

    def is_too_much(self, values: int) -> bool:
        """Return whether a number from so many values is not computed again and again, however much is known of it."""
        return values * RESAMPLES > (MAX_VALUES if self.is_sample else QUICK_VALUES)

    def units(self) -> range | list[Array]:
        """Return what is drawn: row numbers, or the rows of each group."""
        if self.groups is None:
            return range(self.rows)
        order = np.argsort(self.groups, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.groups[order])) + 1)


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return the interval of a share of `count` independent rows (Wilson 1927)."""
    middle, spread = share + Z**2 / (2 * count), Z * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    scale = 1 + Z**2 / count  # rounding must not leave a perfect share outside of its own interval
    low, high = max((middle - spread) / scale, 0.0), min((middle + spread) / scale, 1.0)
    return min(low, share), max(high, share)


def bootstrap(value: Callable[[Array], float], values: int, of: Resampling) -> tuple[float, float] | None:
    """Return the percentiles of a number over resamples of the rows, drawn by a fixed seed (Efron 1979).

    None where the rows say nothing of others: a percentile of few is too narrow, and of equal ones no interval at all.

    Args:
        value: the number from the indices of a resample, (rows,).
        values: how many values one computation goes through.
        of: the rows.
    """
    units = of.units()
    if of.is_too_much(values) or len(units) < MIN_UNITS:
        return None
    draws = np.random.default_rng(0)

    def resample() -> Array:
        chosen = draws.integers(0, len(units), len(units))
        return chosen if isinstance(units, range) else np.concatenate([units[one] for one in chosen])

    found = np.array([value(resample()) for _ in range(RESAMPLES)])
    found = found[np.isfinite(found)]
    if len(found) < (1.0 - MAX_UNDEFINED) * RESAMPLES or (len(units) < MIN_ALIKE and not np.ptp(found)):
        return None
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)
