"""Outliers: cells far from all others, measured by all others: by their range, or by how fast their tail ends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from trainwright.trainer.data.validation.check import Check, Context, Family, Finding
from trainwright.trainer.data.validation.values import NUMBERS, severity_of

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
FEW = 0.001
"""Share of the others, the farthest, that their range is told without."""


TALL = 10.0
"""Standard deviations from the mean, from which on a column's end is read again."""
MIN_TAIL_ROWS, MOST, APART, CHANCE = 250, 5, 3.0, 1e-4
"""Rows, cells at most, and times the distance of the next one: by chance so, as the tail below them falls.

Distances of a tail that falls with the power a have the ratio t at the i-th place with probability t^-(a i) (Renyi
1953); a is estimated from the largest hundredth of the others (Hill 1975). Incomes, counts and clusters fall slowly.
"""
TAIL = (25, 1000)
"""Cells of that hundredth, at least and at most; MIN_STEPS of them differ, or a count has no tail."""
MIN_STEPS = 4


@dataclass(frozen=True)
class Outlier:
    """A few values far from all others, and the range of these."""

    value: float
    """The farthest."""
    share: float
    """Of the column's variance, of that one."""
    least: float
    most: float
    count: int = 1

    @property
    def is_above(self) -> bool:
        """Whether they are greater than all others."""
        return self.value > self.most


class Outliers(Family):
    """Single rows that are far from all others, and zeros."""

    name = "outliers"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each column of numbers, the target too, and one of the zeros of all of them."""
        if context.source == "images":  # whose sizes the checks of pictures judge
            return
        severity = severity_of(context, "outlier", "warning")
        columns = [column for column, kind in context.kinds.items() if kind in NUMBERS]
        for column in columns:
            yield Check("outlier", column, severity, asks_of(column), partial(_judge, context, column))
        severity = severity_of(context, "zeros", "warning")
        asks = {f"{name} of {column}": one for column in columns for name, one in _asks_zeros(column).items()}
        if columns:
            yield Check("zeros", None, severity, asks, partial(_judge_zeros, context, columns))


def _asks_zeros(column: str) -> dict[str, pl.Expr]:
    found = _finite(column)
    rest = found.filter(found != 0)
    return {"zeros": (found == 0).sum(), "nonzero": rest.count(), "least": rest.min(), "most": rest.max(),
            "values": rest.approx_n_unique()}  # fmt: skip


def _judge_zeros(context: Context, columns: list[str], asked: Mapping[str, Any]) -> Finding:
    """Return the finding on measurements with zeros far from all their other values: 0 mm, 0 years, 0 mg."""
    told = {
        column: f"{asked[f'zeros of {column}']} of {column} (all others {asked[f'least of {column}']:.6g} to "
        f"{asked[f'most of {column}']:.6g})"
        for column in columns
        if _stands_for_empty(context, column, asked)
    }
    if not told:
        return Finding(passed=True)
    count = int(sum(asked[f"zeros of {column}"] for column in told))
    text = f"cells that are 0, far from all others: {', '.join(told.values())}. "
    text += "Where 0 stands for a missing value, the model takes it for a measurement"
    remedy = f"Leave these cells empty in the file. In data.expectations, columns.{next(iter(told))}.min: 0 says that "
    remedy += "0 is measured there."
    offending = pl.any_horizontal(_finite(column) == 0 for column in told)
    return Finding(False, count, 0, count, text, remedy, {"columns": list(told)}, offending, "+".join(told))


def _stands_for_empty(context: Context, column: str, asked: Mapping[str, Any]) -> bool:
    """Return whether the zeros lie far from all other values, by the range of nearly all of these."""
    zeros, others, least, most, values = (
        asked[f"{name} of {column}"] for name in ("zeros", "nonzero", "least", "most", "values")
    )
    if not zeros or others < MIN_ROWS or zeros > MAX_ZEROS * others or values < MIN_DIFFERENT:
        return False
    one = context.expectations.columns.get(column)
    nearest = max(least, -most)
    if nearest <= 0 or (one is not None and (one.min == 0 or one.max == 0)):
        return False
    if nearest > GAP * (most - least):
        return True
    size = _finite(column).abs()  # a slipped decimal point among the others widens their range, and hides the zeros
    share = 1.0 - max(FEW, 1.0 / others)
    ends = context.frame.select(size.filter(size > 0).quantile(share, "lower")).collect(engine="streaming").item()
    return bool(nearest > GAP * (ends - nearest))


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
        is_tall = count >= MIN_TAIL_ROWS and share * (count - 1) >= TALL * TALL
        return _beyond_the_tail(context, column, asked, value) if is_tall else None
    found = _finite(column)
    asks = {"least": found.min(), "most": found.max(), "rest": found.count()}
    others = context.frame.filter(found != value).select(**asks)
    least, most, rest = others.collect(engine="streaming").row(0)
    is_alone = rest == count - 1 and most > least
    distance = max(value - most, least - value) if is_alone else 0.0
    return Outlier(value, min(share, 1.0), least, most) if distance > TIMES_THE_REST * (most - least) else None


def _beyond_the_tail(context: Context, column: str, asked: Mapping[str, Any], value: float) -> Outlier | None:
    """Return the few cells on the farthest one's side that the tail below them does not reach but by chance."""
    count, mean, found = int(asked["finite"]), asked["finite mean"], _finite(column)
    size = MOST + min(max(TAIL[0], count // 100), TAIL[1])
    end = found.top_k(size) if value > mean else found.bottom_k(size)
    cells = context.frame.select(end).collect(engine="streaming").to_series().drop_nulls().to_numpy()
    cells = cells[np.argsort(-np.abs(cells - mean))]
    away = np.abs(cells - mean)
    if len(away) < size or not ((cells > mean).all() or (cells < mean).all()):
        return None
    for few in range(MOST, 0, -1):
        rest = away[few:]
        ratio, logs = away[few - 1] / rest[0], np.log(rest / rest[-1])
        if ratio >= APART and len(np.unique(rest)) >= MIN_STEPS and ratio ** (-few / logs[:-1].mean()) < CHANCE:
            share = float(away[0] ** 2 / ((count - 1) * asked["finite variance"]))
            edge = float(cells[few])
            least, most = (asked["finite min"], edge) if value > mean else (edge, asked["finite max"])
            return Outlier(value, share, least, most, few)
    return None


def _finite(column: str) -> pl.Expr:
    """Return a column's finite numbers; null where a cell is empty, NaN or infinite, which other checks name."""
    found = pl.col(column).cast(pl.Float64)
    return pl.when(found.is_finite()).then(found)


def _judge(context: Context, column: str, asked: Mapping[str, Any]) -> Finding:
    found = outlier_of(context, column, asked)
    one = context.expectations.columns.get(column)
    if found is None or _is_expected(found, one):
        return Finding(passed=True)
    key, bound = ("max", found.most) if found.is_above else ("min", found.least)
    far, cell = _finite(column), f"one cell of {column} is {found.value:.6g}"
    if found.count > 1:
        cell = f"{found.count} cells of {column} are far off, the farthest {found.value:.6g}"
    told = f"{cell}, all others {found.least:.6g} to {found.most:.6g}: "
    told += f"{'it holds' if found.count == 1 else 'that one holds'} {found.share:.1%} of the variance"
    remedy = f"Correct the cell or drop its row. In data.expectations, columns.{column}.{key}: {bound!r} stops the "
    remedy += f"next one; {found.value!r} says that it is right."
    offending = far > found.most if found.is_above else far < found.least
    return Finding(False, found.value, bound, found.count, told, remedy, {"share": found.share}, offending)


def _is_expected(found: Outlier, one: Any) -> bool:
    """Return whether a bound of the column reaches as far as the outlier: somebody says that it is right."""
    bound = None if one is None else one.max if found.is_above else one.min
    if not isinstance(bound, int | float):
        return False
    return bool(bound >= found.value if found.is_above else bound <= found.value)
