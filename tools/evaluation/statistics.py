"""Statistics of two programs on the same rows, by what the clean room counted of them."""

from __future__ import annotations

import math
from typing import Any

DIGITS = 6


def statistics_of(paired: dict[str, Any]) -> dict[str, Any]:
    """Return the tests by what the clean room found, differences being first minus second.

    Returns:
        `rows`; `classes`, with p of McNemar's test; `loss`, with the 95 % interval and p of the paired t-test; and
        `intervals`, by metric.
    """
    from scipy import stats

    found: dict[str, Any] = {"rows": paired["rows"]}
    if table := paired.get("classes"):
        differing = table["only_first"] + table["only_second"]
        p = float(stats.binomtest(table["only_first"], differing).pvalue) if differing else 1.0
        found["classes"] = {**table, "test": "McNemar, exact", "p_value": _rounded(p)}
    if moments := paired.get("loss"):
        mean, count = moments["mean"], moments["rows"]
        error = moments["deviation"] / math.sqrt(count)
        half = float(stats.t.ppf(0.975, count - 1)) * error
        p = float(2 * stats.t.sf(abs(mean) / error, count - 1)) if error > 0 else 1.0 if mean == 0 else 0.0
        ends = [_rounded(mean - half), _rounded(mean + half)]
        found["loss"] = {"difference": _rounded(mean), "interval": ends, "test": "paired t", "p_value": _rounded(p)}
    intervals = {name: [_rounded(end) for end in ends] for name, ends in paired.get("intervals", {}).items()}
    return found | ({"intervals": intervals} if intervals else {})


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
