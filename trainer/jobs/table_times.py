"""Columns of times in a table: their steps, whose series the rows are, and how far off naive forecasts are.

Times are dates, or whole numbers with even steps that are named by what they count or look like years.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.time_units import DAY, HOUR, SECONDS
from trainwright.trainer.data.split_methods.by_time import instants
from trainwright.trainer.data.table.infer import infer
from trainwright.trainer.jobs.naive_errors import naive_errors

MAX_TIMES, MIN_TIMES, MIN_OF_SEVERAL = 5_000, 20, 8
"""Rows whose dates are read, and different times of a series; of one of several."""
EVEN_SHARE = 0.5
"""Of the steps between dates, which are the usual one: of months 7 in 12 have 31 days."""
MIN_ROWS, FULL_SHARE = 2, 0.5
"""Rows of a group at the mean, and of all pairs of time and group, which are there where a group is certain."""
COUNTED = {
    "years?|yr|jahre?": SECONDS["year"], "quarters?|qtr|quartale?": SECONDS["quarter"],
    "months?|monate?": SECONDS["month"], "weeks?|wochen?": SECONDS["week"], "days?|tage?": DAY, "hours?|stunden?": HOUR,
    "dates?|datum|times?|zeit|t|periods?|perioden?|steps?|schritte?": None,
}  # fmt: skip
"""Names of columns that number the times, and seconds of one, where the name says it."""
NAMED = re.compile("|".join(COUNTED), re.IGNORECASE)
YEARS = (1800, 2200)
"""Whole numbers that look like years."""


def times_of(
    frame: pl.LazyFrame, rows: int, columns: list[dict[str, Any]], named: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return each column of even times with its step, and whether rows are the steps of one series, or of several.

    Args:
        frame: all rows.
        rows: how many there are.
        columns: as they are described.
        named: the data's entry, which may name the time (split), the group (args.series) and the target.
    """
    args = named.get("args") or {}
    time, group = (named.get("split") or {}).get("time"), (args.get("series") or {}).get("group")
    found: dict[str, dict[str, Any]] = {}
    for name, step in _steps(frame, time).items():
        whose = [one for one in columns if one["name"] != name and (_may_say_whose(one) or one["name"] == group)]
        steps, groups, possible = _groups(frame, name, rows, [one["name"] for one in whose])
        if steps < (MIN_OF_SEVERAL if groups else MIN_TIMES) and name != time:
            continue
        by = None if steps == rows else group or next(iter(groups), None)
        times = _times(frame, name)
        found[name] = {"step_seconds": step, "steps": steps, "groups": groups, "possible": possible,
                       "is_series": steps == rows or bool(groups), "time": name, "group": by}  # fmt: skip
        if times is None or not len(times):
            continue
        is_date = not frame.collect_schema()[name].is_numeric()
        found[name] |= {"first": float(times.min()), "last": float(times.max()), "is_date": is_date}
        if steps == rows or by:
            targets = args.get("target") or [one["name"] for one in columns]
            found[name]["naive"] = naive_errors(frame, times, found[name], targets, named)
    return found


def _steps(frame: pl.LazyFrame, time: str | None) -> dict[str, float | None]:
    """Return the column that is named, and those of even times, with a step's seconds; None where nothing tells them.

    Those of dates come before those of numbers.
    """
    dates: dict[str, float | None] = {}
    numbers: dict[str, float | None] = {}
    head = frame.head(MAX_TIMES).collect(engine="streaming")
    for values in head:
        times = None if values.dtype.is_numeric() else seconds_of(values)
        if times is not None and len(times) == head.height:
            steps, counts = np.unique(np.round(np.diff(np.unique(times)), 6), return_counts=True)
            if len(counts) and counts.max() >= EVEN_SHARE * counts.sum():
                dates[values.name] = float(steps[counts.argmax()])
        elif values.dtype.is_numeric() and (values.name == time or NAMED.fullmatch(values.name) or _are_years(values)):
            numbers |= _numbered(frame.select(pl.col(values.name).unique()).collect(engine="streaming").to_series())
    alone: dict[str, float | None] = {} if time not in head.columns else {str(time): None}
    return alone | dates | numbers


def seconds_of(values: pl.Series) -> Array | None:
    """Return dates in seconds since 1970, (filled,); None of a column of else, or whose days nothing tells."""
    filled = values.drop_nulls()
    try:
        if values.dtype == pl.String and infer(values.name, filled.to_list(), named=True, decimal=".").kind == "date":
            return instants(filled.to_numpy().astype(str), values.name)
        is_date = values.dtype.is_temporal() and values.dtype not in {pl.Time, pl.Duration}
        return instants(filled.cast(pl.Datetime("us")).to_numpy(), values.name) if is_date else None
    except DataError:
        return None


def _times(frame: pl.LazyFrame, name: str) -> Array | None:
    """Return a column's seconds since 1970 of dates, or its numbers, (rows,); None where a cell has neither."""
    column = frame.select(name).collect(engine="streaming").to_series()
    times = column.cast(pl.Float64).to_numpy() if column.dtype.is_numeric() else seconds_of(column)
    return None if times is None or len(times) < len(column) or column.null_count() else times


def _are_years(values: pl.Series) -> bool:
    return bool(values.dtype.is_integer() and values.null_count() == 0 and values.is_between(*YEARS).all())


def _numbered(different: pl.Series) -> dict[str, float | None]:
    """Return a column of whole numbers with even steps, and their seconds; nothing of other numbers.

    Args:
        different: each of its values once.
    """
    numbers = np.sort(different.cast(pl.Float64).fill_null(np.nan).to_numpy())
    steps = np.diff(numbers)
    if not len(steps) or not np.isfinite(numbers).all() or (numbers % 1).any() or np.ptp(steps) > 0:
        return {}
    unit = next((size for names, size in COUNTED.items() if re.fullmatch(names, different.name, re.I)), None)
    unit = next(iter(COUNTED.values())) if unit is None and _are_years(different) else unit
    return {different.name: None if unit is None else float(steps[0]) * unit}


def _may_say_whose(column: dict[str, Any]) -> bool:
    """Whether a column could say whose series a row belongs to: words, or whole numbers that count no times."""
    is_whole = column["kind"] == "number" and not column.get("is_fraction")
    return (is_whole or column["kind"] == "category") and not NAMED.fullmatch(column["name"])


def _groups(frame: pl.LazyFrame, time: str, rows: int, whose: list[str]) -> tuple[int, list[str], list[str]]:
    """Return how many times there are, the columns that part the rows into series, and those that may, few first."""
    pairs = [pl.struct(time, one).n_unique().alias(f"{place} pairs") for place, one in enumerate(whose)]
    alone = [pl.col(one).n_unique().alias(f"{place} alone") for place, one in enumerate(whose)]
    steps, *counts = frame.select(pl.col(time).n_unique(), *pairs, *alone).collect(engine="streaming").row(0)
    if steps == rows:
        return steps, [], []
    groups = zip(whose, counts[: len(whose)], counts[len(whose) :], strict=True)
    fitting = sorted(((one, count) for one, pair, count in groups if pair == rows and 2 <= count * MIN_ROWS <= rows),
                     key=lambda one: one[1])  # fmt: skip
    certain = [one for one, count in fitting if rows >= FULL_SHARE * count * steps]
    return steps, certain, [one for one, _ in fitting]
