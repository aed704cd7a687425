"""Columns: the expected ones are there, others only where they may be, and their cells are of the expected kind."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from trainwright.trainer.base.errors import near_matches
from trainwright.trainer.data.validation.check import Check, Context, Family
from trainwright.trainer.data.validation.report import NotChecked, Verdict
from trainwright.trainer.data.validation.values import dates, empty, every_row, expected, numbers

FITS = {
    "number": ("number", "integer"),
    "integer": ("integer",),
    "boolean": ("boolean",),
    "category": ("text", "integer", "boolean"),
    "text": ("text",),
    "date": ("date",),
}
"""Kinds of columns, as the source gives them, whose every cell is of the expected kind."""


class Schema(Family):
    """Columns and their kinds."""

    name = "schema"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of the cells of each column whose type alone does not show its kind."""
        for column, one in expected(context).items():
            found = context.kinds[column]
            if one.kind is None or found in FITS[one.kind]:
                continue
            what = f"cells (a column of kind {found}) are no"
            remedy = f"Correct these cells, or set columns.{column}.kind to {found} if that is what it holds."
            yield every_row(
                "kind", column, one, _unfit(context, column, one.kind), bound=one.kind, what=what, remedy=remedy
            )

    def found(self, context: Context) -> Iterable[Verdict]:
        """Yield a verdict for each expected column, and for those that nobody expects."""
        wanted = context.expectations.columns
        for column, one in wanted.items():
            if column in context.kinds:
                fits = one.kind is None or context.kinds[column] in FITS[one.kind]
                kind = one.kind if fits else None
                yield Verdict(family=self.name, name="present", column=column, value=kind, text=f"{column} is there")
            elif one.required:
                yield Verdict(
                    family=self.name,
                    name="present",
                    column=column,
                    severity=one.severity,
                    passed=False,
                    text=f"there is no column {column!r}.{near_matches(column, context.kinds)}",
                    remedy=f"Bring the column back, or set columns.{column}.required to false.",
                )
        others = [name for name in context.kinds if name not in wanted]
        if context.expectations.other_columns == "refused":
            yield Verdict(
                family=self.name,
                name="other_columns",
                passed=not others,
                value=len(others),
                bound=0,
                text=f"columns that no expectation names: {', '.join(others[:10]) or 'none'}",
                remedy="Name them under columns, drop them, or set other_columns to allowed.",
            )

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Yield the schema, where nothing is expected of it."""
        if not context.expectations.columns:
            yield NotChecked(what="schema, ranges, categories", why="no expectations name columns")


def _unfit(context: Context, column: str, kind: str) -> pl.Expr:
    filled = ~empty(context, column)
    if kind == "date":
        return filled & dates(context, column).is_null()
    if kind == "number":
        return filled & numbers(context, column).is_null()
    if kind == "integer":
        found = numbers(context, column)
        return filled & (found.is_null() | (found != found.floor()))
    if kind == "boolean":
        words = pl.col(column).cast(pl.String).str.to_lowercase()
        return filled & ~words.is_in(["true", "false", "yes", "no", "0", "1", "0.0", "1.0"])
    return filled
