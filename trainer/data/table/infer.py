"""Kinds of columns, inferred from the first rows of a table, each with its reason."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from trainwright.trainer.data.table import transform
from trainwright.trainer.data.table.schema import BUCKETS, Column, Kind

MOSTLY = 0.7
"""Share of numbers from which a column is one of numbers, whose other cells are errors."""
FEW_ROWS = 20
"""Values from which all of them differing says something."""
NAMED_ID = re.compile(r"^column_\d+$|^Unnamed|(^|[_\s-])(id|uuid|guid|index|key)$|^(id|uuid|guid)[_\s-]|[a-z](Id|ID)$")
DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
PAIRS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"})


def infer(name: str, cells: Sequence[Any], *, named: bool, decimal: str | None = None) -> Column:
    """Return a column as its first cells have it.

    Args:
        name: of the column.
        cells: as read, numbers and texts.
        named: whether the caller named it as a feature, so that it is not left out as an identifier.
        decimal: the decimal mark, where the caller says it.
    """
    if _are_plain_numbers(cells, decimal) and (named or not NAMED_ID.search(name)):
        return Column(name, "number", f"the first {len(cells)} cells are numbers", takes_numbers=True)
    texts = [text for text in map(transform.text_of, cells) if text is not None]
    if not texts:
        return Column(name, "ignore", "no value in any row")
    of_booleans = all(isinstance(cell, bool) for cell in cells if cell is not None)
    found = None if of_booleans else _number(name, texts, decimal)
    if found is not None:
        return found if named else _identity(found, texts)
    return _boolean(name, texts) or _date(name, texts) or _words(name, texts, named=named)


def _are_plain_numbers(cells: Sequence[Any], decimal: str | None) -> bool:
    """Return whether all cells are finite numbers, in one go: most columns are."""
    kinds = set(map(type, cells))
    if not cells or decimal == "," or not kinds <= {str, int, float}:
        return False
    if str in kinds and "_" in "".join(cell for cell in cells if isinstance(cell, str)):
        return False
    try:
        return all(map(math.isfinite, map(float, cells)))
    except (ValueError, OverflowError):
        return False


def forced(name: str, kind: Kind, cells: Sequence[Any], decimal: str | None = None) -> Column:
    """Return a column of the kind that the configuration says, read as its first cells allow."""
    texts = [text for text in map(transform.text_of, cells) if text is not None]
    said = "as configured"
    if kind == "number":
        fits = {mark: sum(_is("number", text, decimal=mark) for text in texts) for mark in ".,"}
        mark = decimal or max(fits, key=lambda one: fits[one])
        return Column(name, kind, said, decimal=mark, takes_numbers=True)
    if kind == "date":
        dated = _date(name, texts, least=0.5)
        return Column(name, kind, said, dated.width if dated else 1, dated.format if dated else "year-month-day")
    return Column(name, kind, said, width=BUCKETS if kind == "text" else 1)


def _is(kind: str, text: str, **column: Any) -> bool:
    try:
        transform.KINDS[kind](text, column)
    except (ValueError, OverflowError):
        return False
    return True


def _number(name: str, texts: list[str], decimal: str | None) -> Column | None:
    for mark in (".", ",") if decimal is None else (decimal,):
        fits = sum(_is("number", text, decimal=mark) for text in texts)
        if mark == "," and decimal is None:
            fits = sum(bool(DECIMAL_COMMA.fullmatch(text)) for text in texts)
        if fits >= MOSTLY * len(texts):
            comma = " with a decimal comma" if mark == "," else ""
            reason = f"{fits} of the first {len(texts)} values are numbers{comma}"
            return Column(name, "number", reason, decimal=mark, takes_numbers=True)
    return None


def _identity(found: Column, texts: list[str]) -> Column:
    """Return a column of numbers, left out where its name says that they identify rows, and all differ."""
    are_whole = len(texts) >= FEW_ROWS and all(text.lstrip("-").isdigit() for text in texts)
    if are_whole and len(set(texts)) == len(texts) and NAMED_ID.search(found.name):
        return Column(found.name, "ignore", f"an identifier: {len(texts)} whole numbers, all different")
    return found


def _boolean(name: str, texts: list[str]) -> Column | None:
    met = {text.lower() for text in set(texts)}
    if any(met <= pair for pair in PAIRS):
        return Column(name, "boolean", "its values are " + " and ".join(sorted(met)))
    return None


def _date(name: str, texts: list[str], least: float = 1.0) -> Column | None:
    distinct = set(texts)
    for width in (1, 2):
        for format_name in transform.DATES:
            fits = sum(_is("date", text, format=format_name, width=width) for text in distinct)
            if fits and fits >= least * len(distinct):
                time = " with a time of day" if width == 2 else ""
                either = format_name == "day/month/year" and all(
                    _is("date", text, format="month/day/year", width=width) for text in distinct
                )
                doubt = "; month/day/year would fit too" if either else ""
                return Column(name, "date", f"dates written {format_name}{time}{doubt}", width, format_name)
    return None


def _words(name: str, texts: list[str], *, named: bool) -> Column:
    distinct, count = len(set(texts)), len(texts)
    words = sum(len(text.split()) for text in texts) / count
    if distinct > 0.95 * count and count >= FEW_ROWS and words < 2 and not named:
        return Column(name, "ignore", f"an identifier: {distinct} of {count} texts differ")
    if words >= 3 or (distinct > max(50, 0.5 * count) and words >= 1.5):
        return Column(name, "text", f"free text: {words:.0f} words on average", BUCKETS)
    return Column(name, "category", f"{distinct} different texts")
