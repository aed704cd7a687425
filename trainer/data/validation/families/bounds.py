"""Bounds: values and dates within theirs, of a closed list or a pattern; how many rows there are, and how old."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import polars as pl

from trainwright.trainer.data.validation.check import Check, Context, Family, Finding
from trainwright.trainer.data.validation.expectations import NOW, ColumnExpectations
from trainwright.trainer.data.validation.report import NotChecked
from trainwright.trainer.data.validation.values import dates, empty, every_row, expected, moment, numbers, text

# Ranges: numbers and dates between their bounds, means between theirs, and pairs of columns in order.


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


# Volume: how many rows there are.


class Volume(Family):
    """Numbers of rows."""

    name = "volume"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each bound; without one, that there is a row at all."""
        rows = context.expectations.rows
        least = 1 if rows.at_least is None else rows.at_least
        yield Check("rows_at_least", None, "error", {"rows": pl.len()}, partial(_judge_rows, least, False))
        if rows.at_most is not None and not context.is_sample:
            yield Check("rows_at_most", None, "error", {"rows": pl.len()}, partial(_judge_rows, rows.at_most, True))

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Yield the upper bound, of a sample of the rows."""
        if context.is_sample and context.expectations.rows.at_most is not None:
            yield NotChecked(what="rows.at_most", why="only a sample of the rows was read")


def _judge_rows(bound: int, is_upper: bool, asked: Mapping[str, Any]) -> Finding:
    rows = int(asked["rows"])
    fits = rows <= bound if is_upper else rows >= bound
    told = f"there are {rows} rows, and {'at most' if is_upper else 'at least'} {bound} are expected"
    remedy = "See whether the file is complete, or the right one; data.args.path names it."
    return Finding(fits, rows, bound, 0, told, remedy)


# Freshness: the newest date of a column is not too old.


class Freshness(Family):
    """Ages of the newest rows."""

    name = "freshness"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each column with an expected age."""
        for column, one in expected(context).items():
            if one.fresh_within_days is not None:
                asks = {"newest": dates(context, column).max()}
                yield Check("fresh", column, one.severity, asks, partial(_judge_age, column, one.fresh_within_days))

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Yield freshness, where no column has an expected age."""
        if not any(one.fresh_within_days for one in context.expectations.columns.values()):
            yield NotChecked(what="freshness", why="no column has fresh_within_days")


def _judge_age(column: str, days: float, asked: Mapping[str, Any]) -> Finding:
    newest = asked["newest"]
    if newest is None:
        return Finding(False, None, days, 0, f"{column} holds no date", f"Correct {column}: dates like 2026-01-31.")
    age = (datetime.now(UTC).replace(tzinfo=None) - newest).total_seconds() / 86400
    told = f"the newest {column} is {newest:%Y-%m-%d}, {age:.1f} days ago; at most {days:g} are expected"
    return Finding(age <= days, round(age, 2), days, 0, told, "Fetch newer data, or the step before this one stopped.")


# Categories: values that are among those expected, and texts that match a pattern.


class Categories(Family):
    """Values of a closed list."""

    name = "categories"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield the checks of lists, patterns and numbers of different values."""
        for column, one in expected(context).items():
            yield from _lists(context, column, one)
            if one.pattern is not None:
                bad = ~text(column).str.contains(one.pattern)
                remedy = f"Correct these cells, or change columns.{column}.pattern."
                what = f"cells of {column} do not match"
                yield every_row("pattern", column, one, bad, bound=one.pattern, what=what, remedy=remedy)
            if one.distinct_at_least is not None or one.distinct_at_most is not None:
                asks = {"distinct": pl.col(column).drop_nulls().n_unique()}
                yield Check("distinct", column, one.severity, asks, partial(_distinct, column, one))


def _lists(context: Context, column: str, one: ColumnExpectations) -> Iterable[Check]:
    remedy = f"Correct these cells, or add the value to columns.{column}.one_of (recorded as loosened)."
    if one.one_of is not None:
        bad = ~among(context, column, one.one_of) & ~empty(context, column)
        shown = ", ".join(map(str, one.one_of[:8])) + (", …" if len(one.one_of) > 8 else "")
        yield every_row("one_of", column, one, bad, bound=shown, what=f"cells of {column} are none of", remedy=remedy)
    if one.none_of is not None:
        bad = among(context, column, one.none_of)
        shown = ", ".join(map(str, one.none_of[:8]))
        remedy = "Correct or drop these rows."
        yield every_row("none_of", column, one, bad, bound=shown, what=f"cells of {column} are one of", remedy=remedy)


def among(context: Context, column: str, values: list[Any]) -> pl.Expr:
    """Return whether a cell is one of the values: as numbers in a column of numbers, else as text."""
    kind = context.kinds[column]
    if kind in {"number", "integer"} and all(isinstance(value, int | float) for value in values):
        return pl.col(column).is_in([float(value) if kind == "number" else value for value in values])
    if kind == "boolean":
        return pl.col(column).is_in([str(value).lower() == "true" for value in values])
    return text(column).is_in([str(value) for value in values])


def _distinct(column: str, one: ColumnExpectations, asked: Mapping[str, Any]) -> Finding:
    count, least, most = int(asked["distinct"]), one.distinct_at_least or 0, one.distinct_at_most
    told = f"{column} has {count} different values, {least} to {'any number' if most is None else most} are expected"
    fits = count >= least and (most is None or count <= most)
    bound = f"{least} to {'any' if most is None else most}"
    return Finding(fits, count, bound, 0, told, f"See where the values of {column} come from, or change the bounds.")
