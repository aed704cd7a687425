"""Categories: values that are among those expected, and texts that match a pattern."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import polars as pl

from trainwright.trainer.data.validation.check import Check, Context, Family, Finding
from trainwright.trainer.data.validation.expectations import ColumnExpectations
from trainwright.trainer.data.validation.values import empty, every_row, expected, text


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
                asks = {"distinct": _column(column).drop_nulls().n_unique()}
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


def _column(column: str) -> pl.Expr:
    return pl.col(column)


def _distinct(column: str, one: ColumnExpectations, asked: Mapping[str, Any]) -> Finding:
    count, least, most = int(asked["distinct"]), one.distinct_at_least or 0, one.distinct_at_most
    told = f"{column} has {count} different values, {least} to {'any number' if most is None else most} are expected"
    fits = count >= least and (most is None or count <= most)
    bound = f"{least} to {'any' if most is None else most}"
    return Finding(fits, count, bound, 0, told, f"See where the values of {column} come from, or change the bounds.")
