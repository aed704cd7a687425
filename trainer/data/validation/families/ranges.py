"""Ranges: numbers and dates between their bounds, means between theirs, and pairs of columns in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import polars as pl

from trainwright.trainer.data.validation.check import Check, Context, Family, Finding
from trainwright.trainer.data.validation.expectations import NOW, ColumnExpectations
from trainwright.trainer.data.validation.values import dates, every_row, expected, moment, numbers


class Ranges(Family):
    """Bounds on values."""

    name = "ranges"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield the checks of every expected bound."""
        for column, one in expected(context).items():
            yield from _bounds(context, column, one)
            yield from _means(context, column, one)
        for first, second in context.expectations.rows.ordered:
            if {first, second} <= context.kinds.keys():
                yield _in_order(context, first, second)


def _bounds(context: Context, column: str, one: ColumnExpectations) -> Iterable[Check]:
    for key, is_upper in (("min", False), ("max", True), ("not_before", False), ("not_after", True)):
        bound = getattr(one, key)
        if bound is None:
            continue
        beyond = _beyond(context, column, f"columns.{column}.{key}", bound, is_upper=is_upper)
        what = f"values of {column} are {'above' if is_upper else 'below'}"
        remedy = f"Correct or drop these rows; if they are right, change columns.{column}.{key} (recorded as loosened)."
        yield every_row(key, column, one, beyond, bound=bound, what=what, remedy=remedy)


def _beyond(context: Context, column: str, key: str, bound: float | str, *, is_upper: bool) -> pl.Expr:
    if isinstance(bound, str):
        at = datetime.now(UTC).replace(tzinfo=None) if bound == NOW else moment(bound, key)
        found, limit = dates(context, column), pl.lit(at)
    else:
        found, limit = numbers(context, column), pl.lit(bound)
    return (found > limit) if is_upper else (found < limit)


def _means(context: Context, column: str, one: ColumnExpectations) -> Iterable[Check]:
    for key, is_upper in (("mean_at_least", False), ("mean_at_most", True)):
        bound = getattr(one, key)
        if bound is not None:
            asks = {"mean": numbers(context, column).mean()}
            yield Check(key, column, one.severity, asks, partial(_mean, column, bound, is_upper))


def _mean(column: str, bound: float, is_upper: bool, asked: Mapping[str, Any]) -> Finding:
    mean = asked["mean"]
    fits = mean is not None and (mean <= bound if is_upper else mean >= bound)
    told = f"the mean of {column} is {mean if mean is None else format(mean, '.6g')}, and {'at most' * is_upper}"
    told += f"{'at least' * (not is_upper)} {bound} is expected"
    return Finding(fits, mean, bound, 0, told, f"See where {column} comes from: its values or their unit changed.")


def _in_order(context: Context, first: str, second: str) -> Check:
    one = ColumnExpectations()
    both_dates = {context.kinds[first], context.kinds[second]} <= {"date", "text"}
    read = dates if both_dates else numbers
    bad = read(context, first) > read(context, second)
    what = f"rows have {first} above"
    return every_row("ordered", first, one, bad, bound=second, what=what, remedy="Correct or drop these rows.")
