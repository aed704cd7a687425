"""Shifts between two profiles of a column: population stability index of shares, Wasserstein distance of quantiles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.trainer.run.profile import ColumnProfile

LEAST_SHARE = 1e-4
"""Put for a value that one of the two has not: its logarithm would be infinite."""


def stability_index(before: dict[str, float], after: dict[str, float]) -> float:
    """Return the population stability index of two distributions over values (Siddiqi 2006): 0.1 little, 0.25 much."""
    total = 0.0
    for value in before.keys() | after.keys():
        one, other = (max(shares.get(value, 0.0), LEAST_SHARE) for shares in (before, after))
        total += (other - one) * math.log(other / one)
    return total


def quantile_distance(before: ColumnProfile, after: ColumnProfile) -> float | None:
    """Return the Wasserstein distance between two columns by their quantiles, in deviations of the first.

    None where a column holds no numbers; of one that did not vary: 0, or infinity.
    """
    if not before.quantiles or not after.quantiles or len(before.quantiles) != len(after.quantiles):
        return None
    apart = [abs(one - other) for one, other in zip(before.quantiles, after.quantiles, strict=True)]
    distance = (sum(apart) - (apart[0] + apart[-1]) / 2) / (len(apart) - 1)
    return distance / before.deviation if before.deviation else math.inf if distance else 0.0
