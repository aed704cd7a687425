"""Estimates of an ablation study: paired differences with t-intervals, Holm's correction, and what could be seen.

Every contrast is computed on each seed, over arms that share it, so what a seed does to all arms cancels. The mean of
those values has Student's interval on n-1 degrees of freedom (Student, "The Probable Error of a Mean", Biometrika
6(1), 1908). No bootstrap: with three to ten seeds its percentile intervals are too narrow (Hesterberg, "What Teachers
Should Know About the Bootstrap", The American Statistician 69(4), 2015), and a signed-rank test of five pairs can
reach no p-value below 0.06. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of
Statistics 6(2), 1979, keeps the chance of any false finding of the study at 5 %, whatever the contrasts have in common.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from trainwright.tools.gates.improvement import resolution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainwright.tools.hyperparameter_tuner.ablation.design import Contrast

CONFIDENCE = 0.95
"""Of each interval by itself, and 1 less the chance of any false finding among all comparisons (Holm)."""
POWER = 0.8
"""Chance with which the smallest effect is found that a study is said to be able to see."""
SPREADS = 400
"""Points at which the distribution of a standard deviation is averaged."""


def estimate(
    contrasts: Sequence[Contrast], values: Sequence[Sequence[float]], samples: int = 0
) -> list[dict[str, Any]]:
    """Return each contrast's mean over the seeds, its interval, its p-value with Holm's correction, and its verdict.

    No spread is taken to be smaller than the metric's resolution gives: values that agree show how coarse it is.

    Args:
        values: by arm, one finite value a seed, at least two, in the same order of seeds.
        samples: size of the split they were measured on; 0 where unknown.
    """
    step = resolution([value for own in values for value in own], samples)
    found = [_estimated(one, values, step, len(contrasts)) for one in contrasts]
    for one, adjusted in zip(found, holm([one["p"] for one in found]), strict=True):
        one["p_holm"] = adjusted
        one["differs"] = adjusted <= 1.0 - CONFIDENCE
    return found


def _estimated(one: Contrast, values: Sequence[Sequence[float]], step: float, tests: int) -> dict[str, Any]:
    from scipy import stats

    seeds = len(values[0])
    each = [math.fsum(w * own[seed] for w, own in zip(one.weights, values, strict=True)) for seed in range(seeds)]
    rounding = step * math.sqrt(sum(weight**2 for weight in one.weights) / 12)  # of rounded values, uniformly off
    mean = statistics.fmean(each)
    error = max(statistics.stdev(each), rounding) / math.sqrt(seeds)
    freedom = seeds - 1
    half, wide = (float(stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / count, freedom)) * error for count in (1, tests))
    return {
        "effect": one.name,
        **({"aliases": list(one.aliases)} if one.aliases else {}),
        "differences": each,
        "mean": mean,
        "low": mean - half,
        "high": mean + half,
        "low_all": mean - wide,
        "high_all": mean + wide,
        "p": float(2 * stats.t.sf(abs(mean) / error, freedom)),
        "smallest_seen": smallest_seen(error, freedom, tests),
    }


def holm(values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order of the given ones."""
    adjusted, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return adjusted


def smallest_seen(error: float, freedom: int, tests: int) -> float:
    """Return the smallest true effect that is found with probability `POWER`, at Holm's strictest step.

    The statistic is (Z + effect / error) / S with Z normal and S^2 chi-squared over its degrees of freedom; its chance
    to pass is averaged over S (Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988, gives tables).
    SciPy's noncentral t has no value so far out. The error itself is estimated, so this is a guide, and no promise.
    """
    import numpy as np
    from scipy import optimize, special, stats

    test = float(stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / tests, freedom))
    spreads = np.sqrt(stats.chi2.ppf((np.arange(SPREADS) + 0.5) / SPREADS, freedom) / freedom)

    def missed(effect: float) -> float:
        return POWER - float(np.mean(special.ndtr(effect - test * spreads) + special.ndtr(-effect - test * spreads)))

    return float(optimize.brentq(missed, 0.0, 10.0 * test + 10.0)) * error
