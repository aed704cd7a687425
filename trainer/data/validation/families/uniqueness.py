"""Uniqueness: columns whose values occur once, alone or together, and rows that equal an earlier one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from trainwright.trainer.data.validation.check import (
    CONTENT,
    MAX_IN_A_SET,
    Check,
    Context,
    Family,
    Finding,
    repeated,
    row_hash,
)
from trainwright.trainer.data.validation.natural import are_natural
from trainwright.trainer.data.validation.report import NotChecked, Severity
from trainwright.trainer.data.validation.values import expected, severity_of

ALLOWED = 0.01
"""Share of rows that may equal an earlier one before it is worth a warning."""


class Uniqueness(Family):
    """Values and rows that occur once."""

    name = "uniqueness"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield the checks of columns, of columns together, and of whole rows."""
        for column, one in expected(context).items():
            if one.unique:
                yield _alone(context, column, one.severity)
        for columns in context.expectations.rows.unique_together:
            if set(columns) <= context.kinds.keys():
                yield _together(context, "+".join(columns), columns, "error", 0.0)
        if hashable(context) and not _implied(context):
            yield _together(context, None, hashable(context), _severity(context), _allowed(context))

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Yield repeated rows, where they would repeat a value of a column that is checked anyway."""
        if implied := _implied(context):
            yield NotChecked(what="duplicates", why=f"{implied}.unique covers it: equal rows repeat it")


def _implied(context: Context) -> str | None:
    """Return a column whose values have to differ, and with them the rows."""
    return next((name for name, one in expected(context).items() if one.unique and one.severity == "error"), None)


def hashable(context: Context) -> list[str]:
    """Return the columns whose values can be compared, of wide samples their whole content."""
    content = [CONTENT] if context.summaries else []
    return content + [column for column, kind in context.kinds.items() if kind not in {"other", "embedding"}]


def _severity(context: Context) -> Severity:
    given = context.expectations.rows.duplicates_at_most is not None
    return severity_of(context, "duplicates", "error" if given else "warning")


def _allowed(context: Context) -> float:
    given = context.expectations.rows.duplicates_at_most
    return ALLOWED if given is None else given


def _is_large(context: Context) -> bool:
    return sum(map(len, context.splits.values())) > MAX_IN_A_SET


def _alone(context: Context, column: str, severity: Severity) -> Check:
    asks, reads = {"filled": pl.col(column).count()}, None
    if _is_large(context):
        reads = partial(_repeats, context, [column], filled=True)
    else:
        asks["different"] = pl.col(column).drop_nulls().n_unique()
    return Check("unique", column, severity, asks, partial(_unique, column), reads=reads)


def _together(context: Context, name: str | None, columns: list[str], severity: Severity, allowed: float) -> Check:
    asks, reads = {"rows": pl.len()}, None
    if _is_large(context):
        reads = partial(_repeats, context, columns)
    else:
        asks[f"different {name or 'rows'}"] = row_hash(columns).n_unique()
    evaluate = partial(_copies, name or "rows", allowed)
    if name is None and context.expectations.rows.duplicates_at_most is None:
        evaluate = partial(_copies_or_natural, context, columns)
    check = "duplicates" if name is None else "unique_together"
    return Check(check, name, severity, asks, evaluate, reads=reads)


def _repeats(context: Context, columns: list[str], *, filled: bool = False) -> dict[str, int]:
    return {"repeats": len(repeated(context, columns, filled=filled))}


def _unique(column: str, asked: Mapping[str, Any]) -> Finding:
    count = asked["repeats"] if "repeats" in asked else int(asked["filled"]) - int(asked["different"])
    told = f"{count} of {asked['filled']} values of {column} repeat an earlier one"
    return Finding(count == 0, count, 0, count, told, f"Drop the rows that repeat a value of {column}.")


def _copies_or_natural(context: Context, columns: list[str], asked: Mapping[str, Any]) -> Finding:
    found = _copies("rows", ALLOWED, asked)
    if found.passed or not are_natural(context, columns):
        return found
    told = f"{found.text.partition(', at most')[0]}, as rows of few different values do"
    return replace(found, passed=True, text=told, remedy="")


def _copies(name: str, allowed: float, asked: Mapping[str, Any]) -> Finding:
    rows = int(asked["rows"])
    count = asked["repeats"] if "repeats" in asked else rows - int(asked[f"different {name}"])
    told = f"{count} of {rows} rows repeat an earlier one" + ("" if name == "rows" else f" in {name}")
    told += f" ({count / max(rows, 1):.2%}), at most {allowed:.2%} may"
    remedy = "Drop the copies, or give them a weight; equal rows always go to the same split."
    return Finding(count <= allowed * rows, count, allowed, count, told, remedy)
