"""Borders of a split by time from the lengths of its parts: `12 months to train, 4 to validate, 4 to test`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

from trainwright.trainer.base.time_units import SECONDS

MONTHS = {"month": 1, "quarter": 3, "year": 12}
"""Units of the calendar, whose lengths differ."""
MAY_LACK = 0.1
"""Share of the test's length by which rows may end before it does."""


def borders_of(times: Mapping[str, Any], spans: Mapping[str, Any]) -> list[str | float] | None:
    """Return borders as a configuration has them; None where nothing tells the spans, or the rows do not last as long.

    Args:
        times: of a column: `first`, `last` (seconds since 1970 of dates, or numbers), `is_date`, `step_seconds`.
        spans: `counts` of train, validation and test, and their `unit`, None of rows.
    """
    if "first" not in times or not all(spans["counts"]):
        return None
    step, is_date, last = times.get("step_seconds"), bool(times.get("is_date")), times["last"]
    found = _after(times["first"], spans["counts"], spans["unit"], step=step, is_date=is_date)
    if not found or last < found[2] - MAY_LACK * (found[2] - found[1]):
        return None
    whole = found if last >= found[2] else found[:2]
    return [_written(one) for one in whole] if is_date else list(whole)


def shares_of(spans: Mapping[str, Any]) -> dict[str, float]:
    """Return the shares of validation and test, where spans are no borders."""
    counts = spans["counts"]
    return {name: round(one / sum(counts), 4) for name, one in zip(("validation", "test"), counts[1:], strict=True)}


def _after(first: float, counts: list[int], unit: str | None, *, step: float | None, is_date: bool) -> list[float]:
    """Return where validation and test begin and where test ends, as times of the column; empty: nothing tells.

    Args:
        first: the first time: seconds since 1970 of dates, or a number.
        counts: lengths of train, validation and test, in units.
        unit: of time; None: rows.
        step: seconds between two rows; of numbers what 1 lasts, where their name says it.
        is_date: whether the column has dates.
    """
    ends = list(accumulate(counts))
    if is_date and unit in MONTHS:
        return [_months_after(first, end * MONTHS[unit]) for end in ends]
    if not step or (unit is None and not is_date):
        return []
    each = (step if unit is None else SECONDS[unit]) / (1.0 if is_date else step)
    return [first + end * each for end in ends]


def _months_after(seconds: float, months: int) -> float:
    """Return the same moment so many months later; of a shorter month its end."""
    begin = _moment(seconds)
    into = begin - begin.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    found, end = (
        datetime(begin.year + place // 12, place % 12 + 1, 1, tzinfo=UTC)
        for place in (begin.month - 1 + months, begin.month + months)
    )
    return min(found + into, end).timestamp()


def _moment(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def _written(seconds: float) -> str:
    return _moment(seconds).strftime("%Y-%m-%dT%H:%M:%S").removesuffix("T00:00:00")
