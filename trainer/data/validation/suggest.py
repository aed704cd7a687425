"""Suggestion of expectations from the data as it is, with a stated margin, as the text of a file."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Any

import polars as pl

from trainwright.trainer.data.validation import yaml_file
from trainwright.trainer.data.validation.check import OF_FILES, Context
from trainwright.trainer.data.validation.families.outliers import asks_of, outlier_of
from trainwright.trainer.data.validation.values import dates, empty, numbers

MARGIN = 0.1
"""Share of a column's range by which its bounds are wider than the values seen."""
MAX_CATEGORIES = 20
MIN_ROWS = 30
"""Rows from which different values in every row are taken for meant."""
HEADER = """\
# Suggested from {rows} rows of {source}. Bounds are {margin:.0%} of the range wider than the values seen, twice as many
# cells may be empty (at least 1%), rows may halve or grow tenfold. It says what was, not what is right: read each line.
"""


def suggested(context: Context) -> str:
    """Return the text of an expectations file that the rows keep."""
    asked: dict[str, pl.Expr] = {"rows": pl.len()}
    for place, (column, kind) in enumerate(context.kinds.items()):
        asked |= {f"{name} {place}": expression for name, expression in _asked(context, column, kind).items()}
    found = context.frame.select(expression.alias(name) for name, expression in asked.items())
    values = found.collect(engine="streaming").row(0, named=True)
    rows = int(values["rows"])
    columns = {}
    for place, (column, kind) in enumerate(context.kinds.items()):
        own = {name.rpartition(" ")[0]: value for name, value in values.items() if name.endswith(f" {place}")}
        if (context.source, column) not in OF_FILES:
            columns[column] = _column(context, column, kind, own, rows)
    suggestion = {"columns": columns, "rows": {"at_least": rows // 2, "at_most": rows * 10}}
    header = HEADER.format(rows=rows, source=context.source, margin=MARGIN)
    return header + yaml_file.dump(suggestion)


def _asked(context: Context, column: str, kind: str) -> dict[str, pl.Expr]:
    asked = {"empty": empty(context, column).sum()}
    if kind in {"number", "integer"}:
        asked |= {"min": numbers(context, column).min(), "max": numbers(context, column).max()} | asks_of(column)
    if kind == "date":
        asked |= {"min": pl.col(column).min(), "max": pl.col(column).max()}
    if kind in {"text", "integer"}:
        asked["different"] = pl.col(column).drop_nulls().n_unique()
    if kind == "text":
        asked |= {"dates": dates(context, column).count(), "min": dates(context, column).min()}
    return asked


def _column(context: Context, column: str, kind: str, seen: dict[str, Any], rows: int) -> dict[str, Any]:
    share = int(seen["empty"] or 0) / max(rows, 1)
    found: dict[str, Any] = {} if kind in {"other", "embedding"} else {"kind": kind}
    found["nulls_at_most"] = round(min(1.0, max(2 * share, 0.01)), 4) if share else 0.0
    filled, different = rows - int(seen["empty"] or 0), int(seen.get("different") or 0)
    is_target = column in context.targets
    if kind in {"number", "integer"} and seen["min"] is not None and not is_target:
        is_doubtful = outlier_of(context, column, seen) is not None  # bounds as wide would say that it is right
        found |= {} if is_doubtful else _bounds(seen["min"], seen["max"], whole=kind == "integer")
    if kind == "date" and isinstance(seen["min"], date | datetime):
        found |= {"not_before": seen["min"].isoformat()[:10], "not_after": "now"}
    is_date = kind == "text" and filled > 0 and seen["dates"] == filled
    if is_date:
        found |= {"kind": "date", "not_before": seen["min"].isoformat()[:10], "not_after": "now"}
    elif kind == "text" and 0 < different <= MAX_CATEGORIES and different * 2 <= filled:
        found["kind"], found["one_of"] = "category", _values(context, column)
    if is_target and kind == "integer" and different <= MAX_CATEGORIES:
        found["one_of"] = _values(context, column)
    if kind in {"text", "integer"} and different == filled >= MIN_ROWS and not is_target and not is_date:
        found["unique"] = True
        found = {name: value for name, value in found.items() if name not in {"min", "max"}}
    return found


def _bounds(least: float, most: float, *, whole: bool) -> dict[str, float | int]:
    wide = (most - least) * MARGIN
    low, high = least - wide, most + wide
    if least >= 0:
        low = max(low, 0)
    if whole:
        return {"min": math.floor(low), "max": math.ceil(high)}
    return {"min": float(f"{low:.6g}"), "max": float(f"{high:.6g}")} if math.isfinite(wide) else {}


def _values(context: Context, column: str) -> list[Any]:
    found = context.frame.select(pl.col(column).drop_nulls().unique().sort()).collect(engine="streaming")
    return list(found[column].to_list())
