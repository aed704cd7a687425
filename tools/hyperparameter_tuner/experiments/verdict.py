"""Verdict on an experiment: a group-sequential test of paired differences, from few seeds on to the most.

The differences from the incumbent on the same seeds are looked at after 2, 3, 5, 8, 12 and 20 of them. The chance of
keeping a change that does nothing is spent by a power family, alpha * (n / most)^3 at n seeds (Kim and DeMets, "Design
and Analysis of Group Sequential Tests Based on the Type I Error Spending Rate Function", Biometrika 74(1), 1987), and
each look has what it adds: by Bonferroni's inequality their sum bounds the chance of any false keep at alpha, whatever
the looks have in common. Discarding early costs power alone, so it may follow any rule.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from trainwright.tools.gates.ideas import DISCARDED, KEPT, UNDECIDED

LOOKS = (2, 3, 5, 8, 12, 20)
"""Numbers of seeds after which a verdict may fall."""
ALPHA = 0.05
POWER_OF_SPENDING = 3.0
LEAST_KEPT = 3
"""Seeds that keep an experiment; fewer can only discard it."""


def looks_up_to(most: int) -> tuple[int, ...]:
    """Return the numbers of seeds at which a test of at most so many looks."""
    return (*(number for number in LOOKS if number < most), most)


def verdict_of(
    differences: Sequence[float], looks: Sequence[int], step: float = 0.0, alpha: float = ALPHA
) -> str | None:
    """Return the verdict on the differences that there are; None: more seeds are needed.

    Kept where they are above 0 beyond chance, at the part of the 5 % that this look has. Discarded where after two
    seeds both are at most 0, or after more their mean is.

    Args:
        differences: experiment less incumbent, one a seed, above 0 where the experiment is better.
        looks: the numbers of seeds after which a verdict may fall (`looks_up_to`), these among them. A single one
            spends the whole 5 %, and leaves the mean difference unbiased.
        step: the smallest difference of two values of the metric; no spread is taken to be smaller than it gives.
        alpha: the chance of a false keep over all looks: less where the very same was judged before.
    """
    from scipy import stats

    number, most = len(differences), looks[-1]
    mean = statistics.fmean(differences)
    if number < LEAST_KEPT:
        return DISCARDED if max(differences) <= 0.0 else None
    if mean <= 0.0:
        return DISCARDED
    error = max(statistics.stdev(differences), step / math.sqrt(6)) / math.sqrt(number)
    if error == 0.0 or float(stats.t.sf(mean / error, number - 1)) <= spent_at(number, looks, alpha):
        return KEPT
    return UNDECIDED if number >= most else None


def spent_at(number: int, looks: Sequence[int], alpha: float = ALPHA) -> float:
    """Return the chance of a false keep that the look at so many seeds may add."""
    spent: list[float] = [
        alpha * (one / looks[-1]) ** POWER_OF_SPENDING for one in looks if LEAST_KEPT <= one <= number
    ]
    return spent[-1] - (spent[-2] if len(spent) > 1 else 0.0)
