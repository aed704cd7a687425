"""Dates of ISO 8601, read alike by the server and by workers on an older Python."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from trainwright.trainer.base.iso_dates import date_from_iso, extended

DAYS = ("2026-01-31", "20260131")
TIMES = ("", "T12", " 12:30", "T123005", "T12:30:05.5", "T12:30:05,123456789", "T12:30:05.123")
ZONES = ("", "Z", "+01", "-0330", "+05:30")
FORM = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{6})?([+-]\d\d:\d\d)?)?")
"""All that Python 3.10 reads of them."""


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("day", DAYS)
def test_an_older_python_reads_what_a_newer_one_does(day: str, time: str, zone: str) -> None:
    text = f"{day}{time}{zone if time else ''}"
    assert FORM.fullmatch(extended(text))
    assert datetime.fromisoformat(extended(text)) == datetime.fromisoformat(text) == date_from_iso(text)


@pytest.mark.parametrize("text", ["2026-0131", "31.01.2026", "2026-01-31T12:3005", "2026-01-31Z", "", "12:30"])
def test_what_is_no_date_is_none_for_either(text: str) -> None:
    with pytest.raises(ValueError, match="isoformat"):
        extended(text)
    with pytest.raises(ValueError, match="isoformat"):
        date_from_iso(text)
