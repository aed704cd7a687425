"""Dates as ISO 8601 writes them, read alike by every Python that a worker or a final model runs on."""

from __future__ import annotations

import re
import sys
from datetime import datetime, timezone

UTC = timezone.utc  # noqa: UP017 - this file also stands in predict.py, which Python 3.10 runs, without datetime.UTC
_DATE = r"(?P<y>\d{4})(?P<dash>-?)(?P<m>\d\d)(?P=dash)(?P<d>\d\d)"
_TIME = r"(?P<H>\d\d)(?:(?P<colon>:?)(?P<M>\d\d)(?:(?P=colon)(?P<S>\d\d)(?:[.,](?P<f>\d+))?)?)?"
_ZONE = r"(?P<Z>Z)|(?P<sign>[+-])(?P<zH>\d\d)(?::?(?P<zM>\d\d)(?::?(?P<zS>\d\d))?)?"
_FORM = re.compile(f"{_DATE}(?:.{_TIME}(?:{_ZONE})?)?", re.ASCII | re.DOTALL)


def date_from_iso(text: str) -> datetime:
    """Return a date with its time of day, if any. Raises ValueError.

    Python 3.10 reads one form alone; weeks (2026-W05) it does not read here either.
    """
    return datetime.fromisoformat(text if sys.version_info >= (3, 11) else extended(text))


def extended(text: str) -> str:
    """Return a date in the form that Python 3.10 reads (2026-01-31T12:00:00.250000+01:00). Raises ValueError."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"Invalid isoformat string: {text!r}")
    part = {name: value or "" for name, value in found.groupdict().items()}
    day = f"{part['y']}-{part['m']}-{part['d']}"
    if not part["H"]:
        return day
    fraction = f".{part['f'][:6]:0<6}" if part["f"] else ""
    zone = "+00:00" if part["Z"] else ""
    if part["sign"]:
        zone = f"{part['sign']}{part['zH']}:{part['zM'] or '00'}" + (f":{part['zS']}" if part["zS"] else "")
    return f"{day}T{part['H']}:{part['M'] or '00'}:{part['S'] or '00'}{fraction}{zone}"
