"""Statistics of two programs on the same rows, by what the clean room counted of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

DIGITS = 6


def statistics_of(paired: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tests by what the clean room found, differences being first minus second.

    Returns:
        `rows`; `classes`, with p of McNemar's test; `loss`, with the 95 % interval and p of the paired t-test; and
        `intervals`, by metric.
    """
    found: dict[str, Any] = {"rows": paired["rows"]}
    if table := paired.get("classes"):
        found["classes"] = {**table, "test": "McNemar, exact", "p_value": _rounded(exact_p(table))}
    if moments := paired.get("loss"):
        found["loss"] = of_losses(moments)
    intervals = {name: [_rounded(end) for end in ends] for name, ends in paired.get("intervals", {}).items()}
    return found | ({"intervals": intervals} if intervals else {})


def exact_p(table: Mapping[str, int]) -> float:
    """Return p of McNemar's exact test (1947): of the rows that one program alone gets right, half are either's."""
    differing, fewer = table["only_first"] + table["only_second"], min(table["only_first"], table["only_second"])
    whole = math.lgamma(differing + 1) - differing * math.log(2)
    terms = (whole - math.lgamma(one + 1) - math.lgamma(differing - one + 1) for one in range(fewer + 1))
    return min(1.0, 2 * math.fsum(map(math.exp, terms)))


def exact_in_words(table: Mapping[str, int], first: str, second: str) -> str:
    """Return the rows that one of two programs alone gets right, and what the exact test says of them."""
    return (
        f"{table['only_first']} rows right by {first} alone, {table['only_second']} by {second} alone: "
        f"McNemar's exact test, p = {exact_p(table):.3g}"
    )


def of_losses(moments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the paired t-test of {mean, deviation, rows} of the losses' differences, with the 95 % interval."""
    from scipy import stats

    mean, count = moments["mean"], moments["rows"]
    error = moments["deviation"] / math.sqrt(count)
    half = float(stats.t.ppf(0.975, count - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, count - 1)) if error > 0 else 1.0 if mean == 0 else 0.0
    ends = [_rounded(mean - half), _rounded(mean + half)]
    return {"difference": _rounded(mean), "interval": ends, "test": "paired t", "p_value": _rounded(p)}


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
