"""Split by time: train is before validation, and validation before test; equal times are never divided.

Folds are earlier origins: each validates on as many times, further back, and trains on those before alone, as in
Hyndman & Athanasopoulos, Forecasting: Principles and Practice (time series cross-validation).
"""

from __future__ import annotations

import math
from datetime import UTC
from typing import Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.iso_dates import date_from_iso
from trainwright.trainer.base.time_units import DAY
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.rows import (
    MAX_NAMED,
    NOWHERE,
    TEST,
    VALIDATION,
    Codes,
    Rows,
    key_of,
    shares_of,
)
from trainwright.trainer.data.table import transform
from trainwright.trainer.data.table.infer import infer

MAX_READ = 10_000
"""Rows that say how dates are written."""


def by_time(rows: Rows, section: SplitSection) -> Codes:
    """Return the split of each row, (rows,). Of equal rows the earliest decides: its copies are in the same split.

    Raises:
        DataError: an empty cell, one that is neither a number nor a date, or too few different times.
    """
    times, splits = _latest(rows, section)
    return splits if section.folds is None else _from_earlier(times, splits, section)


def _latest(rows: Rows, section: SplitSection) -> tuple[Array, Codes]:
    """Return the time and the split of each row, (rows,), without folds, or in the first of them."""
    key = key_of(rows, section)
    times = instants(key, str(section.key))
    if not isinstance(rows.units, int):
        earliest = np.full(rows.distinct, np.inf)
        np.minimum.at(earliest, rows.units, times)
        times = earliest[rows.units]
    if section.borders is not None:
        return times, _between(times, key, section)
    different, counts = np.unique(times, return_counts=True)
    shares = shares_of(section)
    parts = [part for part, share in enumerate(shares) if share > 0]
    if len(different) < len(parts):
        raise DataError(
            f"Column {section.key!r} has {len(different)} different times: too few for {len(parts)} splits.",
            remedy="Choose a finer column of times, or split otherwise: configure(changes={'data.split': null}).",
            details={"column": section.key, "times": len(different)},
        )
    cuts = _cuts(counts, [sum(shares[: part + 1]) for part in parts[:-1]])
    return times, np.array(parts, dtype=np.int8)[np.searchsorted(different[cuts], times, side="right")]


def _from_earlier(times: Array, splits: Codes, section: SplitSection) -> Codes:
    """Return the splits of a fold, (rows,): what lies between its validation and the test is in none.

    Raises:
        DataError: there are too few times before for all folds.
    """
    different = np.unique(times)
    tested, validated = times[splits == TEST], times[splits == VALIDATION]
    end = np.searchsorted(different, tested.min()) if len(tested) else len(different)
    length = int(end - np.searchsorted(different, validated.min())) if len(validated) else 0
    folds = section.folds or 1
    if not length or end - folds * length < 1:
        most = int(end - 1) // length if length else 0
        raise DataError(
            f"{folds} folds of {length} times each leave nothing to train the earliest on: {end} times lie before the "
            "test.",
            remedy=f"Set data.split.folds to {most}, or a smaller data.split.validation."
            if most > 1
            else "Set data.split.folds null, or give more times.",
            details={"times": int(end), "length": length},
        )
    stop = end - section.fold * length
    found = np.searchsorted(different[[stop - length]], times, side="right").astype(np.int8)
    if stop < len(different):
        found[times >= different[stop]] = NOWHERE
    found[splits == TEST] = TEST
    return found


def _between(times: Array, key: Array, section: SplitSection) -> Codes:
    """Return the split of each row, (rows,), where the configuration says when validation and test begin."""
    borders = _borders(key, section)
    said = section.borders or []
    if borders[0] >= borders[1]:
        raise DataError(
            f"data.split.borders are {said}: validation, which begins at the first, would have no time.",
            remedy="Name the first time of validation, then the later first time of test.",
        )
    if (np.diff(borders[1:]) <= 0).any():
        raise DataError(
            f"data.split.borders are {said}: test, which ends before the third, would have no time.",
            remedy="Name a third time after the second, or leave it out: test then has all rows that follow.",
        )
    codes = np.searchsorted(borders, times, side="right").astype(np.int8)
    codes[codes > TEST] = NOWHERE
    return codes


def _borders(key: Array, section: SplitSection) -> Array:
    """Return the configured borders as numbers, (2,) or (3,). Raises DataError: of another kind than the column."""
    said, numeric = section.borders or [], are_numbers(key)
    try:
        borders = instants(np.array(said), str(section.time))
    except DataError:
        borders = None
    if borders is None or any(are_numbers(np.array([one])) != numeric for one in said):
        raise DataError(
            f"data.split.borders are {said}, and {section.time!r} has {'numbers' if numeric else 'dates'}, such as "
            f"{str(key[0])[:30]!r}.",
            remedy="Write them as numbers."
            if numeric
            else "Write them with the year first, as 2026-11-23 or "
            "2026-11-23T14:05:00, however the column has its dates.",
            details={"column": section.time, "borders": said},
        )
    return borders


def rows_after_end(key: Array | None, section: SplitSection) -> int:
    """Return how many rows of a column of times, (rows,), are left out since the borders end the test before them."""
    if key is None or section.by != "time" or len(section.borders or ()) <= TEST:
        return 0
    return int((instants(key, str(section.time)) >= _borders(key, section)[TEST]).sum())


def _cuts(counts: Array, ends: list[float]) -> list[int]:
    """Return the first time of each split after the first: where its share of rows begins, as near as ties allow."""
    before = np.concatenate([[0], np.cumsum(counts)])
    cuts: list[int] = []
    for number, end in enumerate(ends):
        cut = int(np.abs(before - end * before[-1]).argmin())
        least, most = (cuts[-1] if cuts else 0) + 1, len(counts) - (len(ends) - number)
        cuts.append(min(max(cut, least), most))
    return cuts


def are_numbers(values: Array) -> bool:
    """Return whether a column of times, (rows,), has numbers, which are of no unit, rather than dates: its first."""
    if values.dtype.kind not in "OUS":
        return bool(values.dtype.kind != "M")
    try:
        return math.isfinite(float(str(values[0])))
    except ValueError:
        return False


def instants(values: Array, column: str) -> Array:
    """Return the values as numbers, (rows,): dates in seconds since 1970. Raises DataError for anything else."""
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]").astype(np.float64) / 1e6
    texts, places = np.unique(values.astype(str), return_inverse=True)
    numbers = np.array([_instant(text.strip()) for text in texts])
    if np.isnan(numbers).any():
        numbers = np.array(dated(column, texts.tolist()) or numbers)
    found: Array = numbers[places.reshape(-1)]
    wrong = np.flatnonzero(np.isnan(found)).tolist()
    if wrong:
        named = ", ".join(f"row {row} {str(values[row])[:30]!r}" for row in wrong[:MAX_NAMED])
        raise DataError(
            f"Column {column!r}, by which the data are split, has values that are neither dates nor numbers: {named} "
            "(rows counted from 0).",
            remedy="Write them as 2026-11-23 or 2026-11-23T14:05:00, or as numbers.",
            details={"column": column, "rows": wrong[:20]},
        )
    return found


def dated(column: str, texts: list[str], day_first: bool | None = None) -> list[float]:
    """Return dates in seconds since 1970, read as a feature's are; empty where some are none.

    Raises:
        DataError: nothing tells whether the day or the month comes first.
    """
    found = infer(column, texts, named=True, decimal=".", day_first=day_first)
    if found.kind != "date":
        return []
    try:
        parts = [transform.encode(text, found.plan()) for text in texts]
    except ValueError:
        return []
    return [days * DAY + (rest[0] if rest else 0.0) for days, *rest in parts]


def written_as(values: Array, column: str) -> dict[str, Any] | None:
    """Return how the dates of a column, (rows,), are written, as `transform.encode` takes it; None for ISO or numbers.

    As rows that are evenly spread among them have them. Raises as `dated`.
    """
    if values.dtype.kind in "iufbM":
        return None
    places = np.linspace(0, len(values) - 1, min(len(values), MAX_READ)).astype(int)
    texts = np.unique(values[places].astype(str)).tolist()
    if not np.isnan([_instant(text.strip()) for text in texts]).any():
        return None
    return infer(column, texts, named=True, decimal=".").plan()


def _instant(text: str) -> float:
    """Return a number, or an ISO date in seconds since 1970; NaN for anything else."""
    try:
        number = float(text)
        return number if math.isfinite(number) else math.nan
    except ValueError:
        pass
    try:
        found = date_from_iso(text)
    except ValueError:
        return math.nan
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
