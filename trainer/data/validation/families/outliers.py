"""Outliers: columns of numbers in which one row holds nearly all of the variance, far from all others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from trainwright.trainer.data.validation.check import Check, Context, Family, Finding
from trainwright.trainer.data.validation.values import NUMBERS, severity_of

if TYPE_CHECKING:
    import polars as pl

NEARLY_ALL = 0.9
"""Share of a column's variance that one row holds."""
MIN_ROWS = 50
TIMES_THE_REST = 50.0
"""Least distance to the nearest other row, in ranges of all others.

A column of infinite variance (Pareto, exponent 1.5) has such a row by chance in 50^-1.5 = 0.3 % of the cases; one of
normally distributed values never.
"""


MIN_DIFFERENT = 25
"""Values of a measurement; a count has fewer, and its 0 is one."""
MAX_ZEROS = 0.1
GAP = 0.2
"""Between 0 and the least other value, in ranges of the others, from which zeros stand for cells that are missing."""


@dataclass(frozen=True)
class Outlier:
    """A value that nearly all of a column's variance comes from, and the range of all others."""

    value: float
    share: float
    least: float
    most: float


class Outliers(Family):
    """Single rows that are far from all others."""

    name = "outliers"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each column of numbers, the target too."""
        if context.source == "images":  # whose sizes the checks of pictures judge
            return
        severity = severity_of(context, "outlier", "warning")
        for column, kind in context.kinds.items():
            if kind in NUMBERS:
                found, judge = _finite(column), partial(_judge, context, column)
                away = (found - found.mean()).abs()
                yield Check("outlier", column, severity, asks_of(column), judge, offending=away == away.max())
                yield _zeros(context, column, found)


def _zeros(context: Context, column: str, found: pl.Expr) -> Check:
    """Return the check of a measurement's zeros, far from all other values: 0 mm, 0 years, 0 mg."""
    rest = found.filter(found != 0)
    asks = {"zeros": (found == 0).sum(), "nonzero": rest.count(), "nonzero min": rest.min(), "nonzero max": rest.max(),
            "nonzero values": rest.approx_n_unique()}  # fmt: skip
    severity = severity_of(context, "zeros", "warning")
    return Check("zeros", column, severity, asks, partial(_judge_zeros, context, column), offending=found == 0)


def _judge_zeros(context: Context, column: str, asked: Mapping[str, Any]) -> Finding:
    zeros, others, least, most, values = (
        asked[name] for name in ("zeros", "nonzero", "nonzero min", "nonzero max", "nonzero values")
    )
    if not zeros or others < MIN_ROWS or zeros > MAX_ZEROS * others or values < MIN_DIFFERENT:
        return Finding(passed=True)
    one = context.expectations.columns.get(column)
    if max(least, -most) <= GAP * (most - least) or (one is not None and (one.min == 0 or one.max == 0)):
        return Finding(passed=True)
    told = (
        f"{zeros} cells of {column} are 0, all others {least:.6g} to {most:.6g}: where 0 stands for a missing value, "
    )
    remedy = (
        f"Leave these cells empty in the file. In data.expectations, columns.{column}.min: 0 says that 0 is measured."
    )
    return Finding(False, int(zeros), 0, int(zeros), told + "the model takes it for a measurement", remedy)


def asks_of(column: str) -> dict[str, pl.Expr]:
    """Return the aggregates that show whether a row may be an outlier."""
    found = _finite(column)
    return {
        "finite": found.count(),
        "finite mean": found.mean(),
        "finite variance": found.var(),
        "finite min": found.min(),
        "finite max": found.max(),
    }


def outlier_of(context: Context, column: str, asked: Mapping[str, Any]) -> Outlier | None:
    """Return the outlier of a column, if there is one; only where the variance shows one is the column read again.

    Args:
        asked: the values of `asks_of`.
    """
    count, mean, variance = int(asked["finite"]), asked["finite mean"], asked["finite variance"]
    if count < MIN_ROWS or not variance:
        return None
    value = max(asked["finite min"], asked["finite max"], key=lambda one: abs(one - mean))
    share = 1.0  # where the variance is beyond all floating numbers
    if math.isfinite(variance):
        share = (value - mean) * (value - mean) / ((count - 1) * variance)
    if share < NEARLY_ALL:
        return None
    found = _finite(column)
    asks = {"least": found.min(), "most": found.max(), "rest": found.count()}
    others = context.frame.filter(found != value).select(**asks)
    least, most, rest = others.collect(engine="streaming").row(0)
    is_alone = rest == count - 1 and most > least
    distance = max(value - most, least - value) if is_alone else 0.0
    return Outlier(value, min(share, 1.0), least, most) if distance > TIMES_THE_REST * (most - least) else None


def _finite(column: str) -> pl.Expr:
    """Return a column's finite numbers; null where a cell is empty, NaN or infinite, which other checks name."""
    import polars as pl

    found = pl.col(column).cast(pl.Float64)
    return pl.when(found.is_finite()).then(found)


def _judge(context: Context, column: str, asked: Mapping[str, Any]) -> Finding:
    found = outlier_of(context, column, asked)
    one = context.expectations.columns.get(column)
    if found is None or _is_expected(found, one):
        return Finding(passed=True)
    key, bound = ("max", found.most) if found.value > found.most else ("min", found.least)
    told = f"one cell of {column} is {found.value:.6g}, all others {found.least:.6g} to {found.most:.6g}: "
    told += f"it holds {found.share:.1%} of the variance"
    remedy = f"Correct the cell or drop its row. In data.expectations, columns.{column}.{key}: {bound!r} stops the "
    remedy += f"next one; {found.value!r} says that it is right."
    return Finding(False, found.value, bound, 1, told, remedy, {"share": found.share})


def _is_expected(found: Outlier, one: Any) -> bool:
    """Return whether a bound of the column reaches as far as the outlier: somebody says that it is right."""
    bound = None if one is None else one.max if found.value > found.most else one.min
    if not isinstance(bound, int | float):
        return False
    return bool(bound >= found.value if found.value > found.most else bound <= found.value)
