"""Borders of a split by time from the lengths of its parts, by the calendar, in hours, or in rows."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.trainer.base.time_units import HOUR, SECONDS
from trainwright.trainer.data.spans import borders_of

HOURS = {"first": 1467331200.0, "last": 1467331200.0 + 17419 * HOUR, "is_date": True, "step_seconds": HOUR}
"""Of ETTh1: from 2016-07-01 on, nearly 24 months."""
YEARS = {"first": 63.0, "last": 78.0, "is_date": False, "step_seconds": SECONDS["year"]}


@pytest.mark.parametrize(
    ("times", "counts", "unit", "borders"),
    [
        (HOURS, [12, 4, 4], "month", ["2017-07-01", "2017-11-01", "2018-03-01"]),
        (HOURS, [8640, 2880, 2880], None, ["2017-06-26", "2017-10-24", "2018-02-21"]),
        (HOURS, [13, 1, 1], "hour", ["2016-07-01T13:00:00", "2016-07-01T14:00:00", "2016-07-01T15:00:00"]),
        (HOURS, [12, 6, 6], "month", ["2017-07-01", "2018-01-01"]),  # 4 days are missing at the end
        (HOURS, [18, 6, 6], "month", None),
        (YEARS, [10, 2, 2], "year", [73.0, 75.0, 77.0]),
        (YEARS, [10, 2, 2], None, None),
        ({**YEARS, "step_seconds": None}, [10, 2, 2], "year", None),
        ({}, [12, 4, 4], "month", None),
    ],
)
def test_spans_are_counted_from_the_first_time_and_those_that_do_not_fit_are_no_borders(
    times: dict[str, Any], counts: list[int], unit: str | None, borders: list[Any] | None
) -> None:
    assert borders_of(times, {"counts": counts, "unit": unit}) == borders


def test_a_month_that_is_shorter_ends_where_the_next_begins() -> None:
    january = {"first": 1706659200.0, "last": 1740000000.0, "is_date": True, "step_seconds": HOUR}  # 2024-01-31
    assert borders_of(january, {"counts": [1, 1, 1], "unit": "month"}) == ["2024-03-01", "2024-03-31", "2024-05-01"]
