"""Nulls: empty cells of each column, of the target, and numbers that are infinite."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import polars as pl

from trainwright.trainer.data.validation.check import OF_FILES, Check, Context, Family, Finding
from trainwright.trainer.data.validation.families.leaks import inputs_of, without_columns
from trainwright.trainer.data.validation.values import empty, numbers, severity_of

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
            yield Check("nulls", column, severity, asks, partial(_judge, column, bound, remedy), offending=bad)
            if kind == "number":
                infinite = numbers(context, column).is_infinite().fill_null(value=False)
                asks = {"infinite": infinite.sum()}
                severity = severity_of(context, "infinite", "error")
                yield Check("infinite", column, severity, asks, partial(_finite, column), offending=infinite)


def _of_input(context: Context, column: str) -> str:
    """Return what to do about a column that is mostly empty: a table's has one beside it that marks the holes."""
    changes = without_columns(context, [column])
    return IS_MARKED.format(column, json.dumps(changes)) if changes else FILL.format(column)


def _judge(column: str, bound: float, remedy: str, asked: Mapping[str, Any]) -> Finding:
    count, rows = int(asked["empty"] or 0), int(asked["rows"])
    share = count / max(rows, 1)
    told = f"{count} of {rows} cells of {column} are empty ({share:.2%}), at most {bound:.2%} may be"
    return Finding(share <= bound, round(share, 6), bound, count, told, remedy)


def _finite(column: str, asked: Mapping[str, Any]) -> Finding:
    count = int(asked["infinite"] or 0)
    told = f"{count} cells of {column} are infinite"
    remedy = f"Put finite values into {column}: one that is infinite makes every weight so."
    return Finding(count == 0, count, 0, count, told, remedy)
