"""Columns: the expected ones are there, others only where they may be, and their cells are of one kind and filled."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import polars as pl

from trainwright.trainer.base.errors import near_matches
from trainwright.trainer.data.validation.check import OF_FILES, Check, Context, Family, Finding
from trainwright.trainer.data.validation.families.leaks import inputs_of, without_columns
from trainwright.trainer.data.validation.report import NotChecked, Verdict
from trainwright.trainer.data.validation.values import dates, empty, every_row, expected, numbers, severity_of

# Columns: the expected ones are there, others only where they may be, and their cells are of the expected kind.

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


# Mixed types: columns of text most of whose cells are numbers.

MOSTLY = 0.8
"""Share of numbers from which the other cells are taken for slips."""


class MixedTypes(Family):
    """Cells of two types in one column."""

    name = "mixed_types"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each column of text that is not expected to be one."""
        for column, kind in context.kinds.items():
            one = context.expectations.columns.get(column)
            if kind != "text" or (one is not None and (one.kind in {"text", "category", "date"} or one.one_of)):
                continue
            if column == context.options.get("text"):
                continue
            filled = ~empty(context, column)
            bad = filled & numbers(context, column).is_null()
            asks = {"filled": filled.sum(), "no number": bad.sum()}
            severity = severity_of(context, "mixed_types", "warning")
            yield Check("mixed_types", column, severity, asks, partial(_judge_mixed, column), offending=bad)


def _judge_mixed(column: str, asked: Mapping[str, Any]) -> Finding:
    filled, count = int(asked["filled"] or 0), int(asked["no number"] or 0)
    is_mixed = 0 < count <= (1.0 - MOSTLY) * filled
    told = f"{count} of {filled} cells of {column} are no numbers, the others are"
    remedy = f"Correct these cells; or say what {column} is: expectations columns.{column}.kind = category or text."
    return Finding(not is_mixed, count, 0, count if is_mixed else 0, told, remedy)


# Nulls: empty cells of each column, of the target, and numbers that are infinite.

MOSTLY_EMPTY = 0.5
"""Share of empty cells above which a column is worth a warning."""
TEACHES_NOTHING = "Fill {0} or drop these rows: a row without its target teaches and tests nothing."
FILL = "Fill {0} or drop these rows; or leave the column out."
IS_MARKED = (
    "Nothing has to be filled: training tells the model which cells of {0} are empty. Where they are so because of "
    "what is predicted, leave it out with {1}."
)


class Nulls(Family):
    """Empty cells."""

    name = "nulls"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each column's empty cells, and of each column of numbers whether they are finite."""
        seen = set(inputs_of(context) or context.kinds)
        for column, kind in context.kinds.items():
            if (context.source, column) in OF_FILES:  # a picture without a problem has none
                continue
            one, is_target = context.expectations.columns.get(column), column in context.targets
            if one is None and not is_target and column not in seen:
                continue
            if one is not None and one.nulls_at_most is not None:
                bound, severity = one.nulls_at_most, one.severity
            else:
                bound = 0.0 if is_target else MOSTLY_EMPTY
                severity = severity_of(context, "nulls", "error" if is_target else "warning")
            bad = empty(context, column)
            asks = {"empty": bad.sum(), "rows": pl.len()}
            remedy = TEACHES_NOTHING.format(column) if is_target else _of_input(context, column)
            yield Check("nulls", column, severity, asks, partial(_judge_empty, column, bound, remedy), offending=bad)
            if kind == "number":
                infinite = numbers(context, column).is_infinite().fill_null(value=False)
                asks = {"infinite": infinite.sum()}
                severity = severity_of(context, "infinite", "error")
                yield Check("infinite", column, severity, asks, partial(_finite, column), offending=infinite)


def _of_input(context: Context, column: str) -> str:
    """Return what to do about a column that is mostly empty: a table's has one beside it that marks the holes."""
    changes = without_columns(context, [column])
    return IS_MARKED.format(column, json.dumps(changes)) if changes else FILL.format(column)


def _judge_empty(column: str, bound: float, remedy: str, asked: Mapping[str, Any]) -> Finding:
    count, rows = int(asked["empty"] or 0), int(asked["rows"])
    share = count / max(rows, 1)
    told = f"{count} of {rows} cells of {column} are empty ({share:.2%}), at most {bound:.2%} may be"
    return Finding(share <= bound, round(share, 6), bound, count, told, remedy)


def _finite(column: str, asked: Mapping[str, Any]) -> Finding:
    count = int(asked["infinite"] or 0)
    told = f"{count} cells of {column} are infinite"
    remedy = f"Put finite values into {column}: one that is infinite makes every weight so."
    return Finding(count == 0, count, 0, count, told, remedy)
