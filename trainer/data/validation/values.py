"""Values of a column as numbers, dates or text, whatever form the source gives them, and checks of every row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import polars as pl

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.iso_dates import date_from_iso
from trainwright.trainer.data.validation.check import Check, Context, Finding
from trainwright.trainer.data.validation.expectations import DOCUMENT, ColumnExpectations
from trainwright.trainer.data.validation.report import Severity

NUMBERS = ("number", "integer")


def kind_of(dtype: pl.DataType) -> str:
    """Return the kind of a column of this type."""
    if dtype.is_integer():
        return "integer"
    if dtype.is_numeric():
        return "number"
    if dtype == pl.Boolean:
        return "boolean"
    if dtype.is_temporal():
        return "date"
    if isinstance(dtype, pl.List | pl.Array) and dtype.inner is not None and dtype.inner.is_numeric():
        return "embedding"
    return "text" if dtype in (pl.String, pl.Categorical, pl.Enum) else "other"


def numbers(context: Context, column: str) -> pl.Expr:
    """Return a column as finite or infinite numbers; null where a cell is empty, NaN or no number."""
    found = pl.col(column)
    kind = context.kinds[column]
    if kind == "number":
        return found.fill_nan(None)
    if kind == "text":
        return found.cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False).fill_nan(None)
    return found.cast(pl.Float64) if kind == "date" else found


def dates(context: Context, column: str) -> pl.Expr:
    """Return a column as moments without a zone; null where a cell is empty or no date."""
    found = pl.col(column)
    if context.kinds[column] == "date":
        return found.cast(pl.Datetime("us"), strict=False)
    return dates_of_text(found.cast(pl.String))


def dates_of_text(text: pl.Expr) -> pl.Expr:
    """Return texts as moments without a zone; null where one is no date."""
    days = text.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us"))
    return days.fill_null(text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="us")).fill_null(
        text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="us")
    )


def text(column: str) -> pl.Expr:
    """Return a column as text, null where a cell is empty."""
    return pl.col(column).cast(pl.String)


def empty(context: Context, column: str) -> pl.Expr:
    """Return whether a cell is empty: null, NaN, or text without a sign."""
    found = pl.col(column)
    kind = context.kinds[column]
    if kind == "number":
        return found.is_null() | found.is_nan().fill_null(value=False)
    if kind == "text":
        return found.is_null() | (found.cast(pl.String) == "").fill_null(value=False)
    return found.is_null()


def moment(given: str, key: str) -> datetime:
    """Return a moment, UTC without a zone. Raises ConfigurationError."""
    try:
        found = date_from_iso(given)
    except ValueError as error:
        raise ConfigurationError(
            f"`{key}` = {given!r} is no date.",
            remedy="Write it like 2026-01-31 or 2026-01-31T12:00:00; or quote nothing where it is a number.",
            document=DOCUMENT,
        ) from error
    return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo is not None else found


def expected(context: Context) -> Mapping[str, ColumnExpectations]:
    """Return the expectations of the columns that are there."""
    return {name: one for name, one in context.expectations.columns.items() if name in context.kinds}


def severity_of(context: Context, check: str, default: Severity) -> Severity:
    """Return the severity of a check of the default set."""
    return context.expectations.severities.get(check, default)


def every_row(
    name: str,
    column: str,
    one: ColumnExpectations,
    bad: pl.Expr,
    *,
    bound: float | int | str,
    what: str,
    remedy: str,
) -> Check:
    """Return a check that at least the share `mostly` of a column's rows keeps.

    Args:
        bad: true for rows that break it, false for empty cells.
        what: the words between the number of rows and the bound: `rows are above`.
    """

    def evaluate(asked: Mapping[str, Any]) -> Finding:
        count, rows = int(asked[f"breaks {name}"] or 0), int(asked["rows"])
        allowed = (1.0 - one.mostly) * max(rows, 1)
        told = f"{count} of {rows} {what} {bound}"
        told += f" (at most {1.0 - one.mostly:.4g} of them may)" if one.mostly < 1.0 else ""
        return Finding(count <= allowed, count, bound, count, told, remedy)

    asks = {f"breaks {name}": bad.fill_null(value=False).sum(), "rows": pl.len()}
    return Check(name, column, one.severity, asks, evaluate, offending=bad.fill_null(value=False))
