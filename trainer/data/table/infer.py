"""Kinds of columns, inferred from the first rows of a table, each with its reason."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.table import transform
from trainwright.trainer.data.table.numerals import OTHER, Marks, marks_of
from trainwright.trainer.data.table.schema import BUCKETS, Column, Kind
from trainwright.trainer.data.table.transform import NUMBER, PLAIN

MOSTLY = 0.7
"""Share of numbers from which a column is one of numbers, whose other cells are errors."""
SOME = 200
"""First cells of a column that other columns' marks are told by."""
MAX_ODD = 50
"""Different cells that look like numbers of several units, up to which they are categories."""
EXACT, BEYOND = 2.0**24, 1e19
"""Whole numbers up to which float32 has each, and beyond which they are amounts rather than names."""
FEW_ROWS = 20
"""Values from which all of them differing says something."""
NAMED_ID = re.compile(
    r"^\s*$|^column_\d+$|^Unnamed|(^|[_\s-])(id|uuid|guid|index|key)$|^(id|uuid|guid)[_\s-]|[a-z](Id|ID)$"
)
CODE = re.compile(r"^0\d{3,}$", re.MULTILINE)
SMALL = re.compile(r"[-+]?\d{1,3}")
THREE = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")
SHORT_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2}")
COMPACT = re.compile(r"(?:19|20)\d{6}")
ZONE = re.compile(r":\d{2}(?:\.\d+)? ?(Z|UTC|GMT|[-+]\d{2}:?(?:\d{2})?)(?:\[[\w/+-]+\])?$", re.IGNORECASE)
PAIRS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"})


def infer(
    name: str, cells: Sequence[Any], *, named: bool, decimal: str | None = None, day_first: bool | None = None
) -> Column:
    """Return a column as its first cells have it.

    Args:
        name: of the column.
        cells: as read, numbers and texts.
        named: whether the caller named it as a feature, so that it is not left out as an identifier.
        decimal: the decimal mark that the user says or other columns have, for what the column leaves open.
        day_first: whether the user says that 03/04/2024 is the third of April.

    Raises:
        DataError: nothing tells its decimal mark from that of thousands, or its days from its months.
    """
    decimal = _mark(cells, decimal)
    if _are_compact_dates(cells):
        return Column(name, "date", "dates written yearmonthday", format="yearmonthday")
    if _are_plain_numbers(cells, decimal) and (named or not NAMED_ID.search(name)):
        plain = _plain(name, cells, decimal)
        return plain if named else _told_apart(plain, cells)
    texts = [text for text in map(transform.text_of, cells) if text is not None]
    if not texts:
        return Column(name, "ignore", "no value in any row")
    of_booleans = all(isinstance(cell, bool) for cell in cells if cell is not None)
    found = None if of_booleans or _are_codes(texts) else _number(name, texts, decimal)
    if found is not None:
        return found if named else _identity(found, texts)
    return _boolean(name, texts) or _date(name, texts, day_first) or _words(name, texts, named=named)


def infer_target(name: str, cells: Sequence[Any], decimal: str | None = None) -> Column:
    """Return a target as its first cells have it: numbers, with their marks, or a category. Raises as `infer`."""
    decimal = _mark(cells, decimal)
    if _are_plain_numbers(cells, decimal):
        return _plain(name, cells, decimal)
    texts = [text for text in map(transform.text_of, cells) if text is not None]
    return _number(name, texts, decimal) or Column(name, "category", f"{len(set(texts))} different texts")


def decimal_of(columns: Iterable[Sequence[Any]], said: str | None = None, delimiter: str | None = None) -> str | None:
    """Return the decimal mark of a table: as the user says, as its columns prove, or as its delimiter suggests.

    None where nothing tells, or columns differ.
    """
    if said is not None:
        return said
    proven = set()
    for cells in columns:
        texts = [cell.strip() for cell in cells[:SOME] if isinstance(cell, str) and ("," in cell or "." in cell)]
        marks = marks_of(texts) if texts else None
        if marks is not None and marks.is_proven and _fits(texts, marks) >= MOSTLY * len(texts):
            proven.add(marks.decimal)
    if not proven:
        return "," if delimiter == ";" else None
    return proven.pop() if len(proven) == 1 else None


def _plain(name: str, cells: Sequence[Any], decimal: str | None) -> Column:
    """Return a column of plain numbers; with its mark left open where all are whole and below a thousand."""
    is_open = decimal is None and all(SMALL.fullmatch(cell.strip()) for cell in cells)
    mark, thousands = (None, None) if is_open else (".", OTHER["."] if decimal == "." else None)
    reason = f"the first {len(cells)} cells are numbers"
    return Column(name, "number", reason, decimal=mark, thousands=thousands, takes_numbers=True)


def _mark(cells: Sequence[Any], decimal: str | None) -> str | None:
    """Return the decimal mark of cells, which are text: numbers of a type have a point."""
    return decimal if any(isinstance(cell, str) for cell in cells) else "."


def _are_compact_dates(cells: Sequence[Any]) -> bool:
    """Return whether all of many whole numbers are days as 20240131."""
    filled = [cell for cell in cells if cell is not None and cell != ""]
    if len(filled) < FEW_ROWS or not COMPACT.fullmatch(str(filled[0]).strip()):
        return False
    return all(_is("date", str(cell).strip(), format="yearmonthday", width=1) for cell in dict.fromkeys(filled))


def _told_apart(column: Column, cells: Sequence[Any]) -> Column:
    """Return a column of numbers, left out where they are whole and most fall together in 32 bits."""
    import numpy as np

    different = np.unique(np.array([*map(float, cells)]))
    if np.abs(different).min() < EXACT or np.abs(different).max() > BEYOND or (different != np.floor(different)).any():
        return column
    kept = len(np.unique(different.astype(np.float32)))
    if 2 * kept > len(different):
        return column
    reason = (
        f"of {len(different)} different numbers float32 tells {kept} apart: an identifier, or write them less exact"
    )
    return Column(column.name, "ignore", reason)


def _are_plain_numbers(cells: Sequence[Any], decimal: str | None) -> bool:
    """Return whether all cells are finite numbers as programs write them, in one go: most columns are."""
    kinds = set(map(type, cells))
    if not cells or decimal == "," or not kinds <= {str, int, float}:
        return False
    texts = [cell.strip() for cell in cells if isinstance(cell, str)]
    together = "\n".join(texts)
    if "_" in together or CODE.search(together):
        return False
    pointed = [text for text in texts if "." in text]
    if pointed and all(map(THREE.fullmatch, pointed)):
        return False  # 1.234 may be a thousand, which all cells together tell
    try:
        return all(map(math.isfinite, map(float, cells)))
    except (ValueError, OverflowError):
        return False


def _are_codes(texts: Sequence[str]) -> bool:
    """Return whether digits are names: all of one length, some with a zero before."""
    return any(map(CODE.fullmatch, texts)) and len({len(text) for text in texts}) == 1 and all(map(str.isdigit, texts))


def forced(
    name: str, kind: Kind, cells: Sequence[Any], decimal: str | None = None, day_first: bool | None = None
) -> Column:
    """Return a column of the kind that the configuration says, read as its first cells allow. Raises as `infer`."""
    texts = [text for text in map(transform.text_of, cells) if text is not None]
    said = "as configured"
    if kind == "number":
        decimal = _mark(cells, decimal)
        marks = marks_of(texts) or Marks(decimal or ".")
        return _with_marks(name, said, marks.settled(decimal))
    if kind == "date":
        dated = _date(name, texts, day_first, least=0.5)
        return Column(name, kind, said, dated.width if dated else 1, dated.format if dated else "year-month-day")
    return Column(name, kind, said, width=BUCKETS if kind == "text" else 1)


def _is(kind: str, text: str, **column: Any) -> bool:
    try:
        transform.KINDS[kind](text, column)
    except (ValueError, OverflowError):
        return False
    return True


def _number(name: str, texts: list[str], decimal: str | None) -> Column | None:
    marks = marks_of(texts)
    if marks is None:
        return None
    marks = marks.settled(decimal)
    fits = len(texts) if marks.doubt is not None else _fits(texts, marks)
    if fits < MOSTLY * len(texts):
        return None
    told = marks.told()
    reason = f"{fits} of the first {len(texts)} values are numbers{' ' if told else ''}{told}"
    return _with_marks(name, reason, marks)


def _fits(texts: list[str], marks: Marks) -> int:
    column = {"decimal": marks.decimal, "thousands": marks.thousands, "unit": marks.unit}
    return sum(_is("number", text, **column) for text in texts)


def _with_marks(name: str, reason: str, marks: Marks) -> Column:
    """Return a column of numbers; a reader may parse them itself where it knows all of their marks."""
    if marks.doubt is not None:
        raise ambiguous(name, marks.doubt)
    is_simple = marks.unit is None and (marks.thousands is None or not marks.is_proven)
    return Column(
        name, "number", reason, decimal=marks.decimal, thousands=marks.thousands, unit=marks.unit,
        takes_numbers=is_simple,
    )  # fmt: skip


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


def ambiguous(name: str, cell: str, place: str = "Column") -> DataError:
    """Return the error for a number whose mark may be that of decimals or of thousands."""
    mark = "," if "," in cell else "."
    large, small = cell.replace(mark, ""), cell.replace(mark, ".")
    return DataError(
        f"{place} {name!r}: {cell!r} may be {large} or {small}, and nothing in the table tells a decimal mark from one "
        "of thousands.",
        remedy=f'Say the decimal mark: data.args.decimal "{OTHER[mark]}" reads {large}, "{mark}" reads {small}.',
        details={"column": name},
    )


def _date(name: str, texts: list[str], day_first: bool | None, least: float = MOSTLY) -> Column | None:
    """Return a column of dates in the one form that all fit, else in that which most do; the others are errors then."""
    counts = Counter(texts)
    fits: dict[tuple[int, str], int] = {}
    for share in (1.0, least):
        for width in (1, 2):
            for form in transform.DATES:
                if (width, form) not in fits:
                    fits[width, form] = _dated(counts, form, width)
                if fits[width, form] and fits[width, form] >= share * len(texts):
                    settled = _settled(name, form, width, counts, day_first)
                    return _of_form(name, settled, width, counts, fits[width, form])
    return None


def _dated(counts: Counter[str], form: str, width: int) -> int:
    """Return how many cells are dates of a form; 0 where the first different ones are none."""
    first = list(counts)[:SOME]
    if not any(_is("date", text, format=form, width=width) for text in first):
        return 0
    return sum(count for text, count in counts.items() if _is("date", text, format=form, width=width))


def _settled(name: str, form: str, width: int, counts: Counter[str], day_first: bool | None) -> str:
    """Return the form of dates of which no cell tells days from months, as the user says. Raises DataError."""
    other = "month/day/year"
    if form != "day/month/year" or not all(_is("date", text, format=other, width=width) for text in counts):
        return form
    if day_first is None:
        cell = next(iter(counts))
        raise DataError(
            f"Column {name!r}: no date, such as {cell!r}, tells whether the day or the month comes first.",
            remedy="Say it: data.args.day_first true reads day/month/year, false month/day/year.",
            details={"column": name},
        )
    return form if day_first else other


def _of_form(name: str, form: str, width: int, counts: Counter[str], fits: int) -> Column:
    time = f" with a time of day{_zones(set(counts))}" if width == 2 else ""
    total = sum(counts.values())
    some = "" if fits == total else f"{fits} of the first {total} values are "
    return Column(name, "date", f"{some}dates written {form}{time}", width, form)


def _zones(texts: set[str]) -> str:
    """Return in words what offsets from UTC dates have; empty for none, or UTC throughout."""
    zones = [found[1].upper() if (found := ZONE.search(text)) else "" for text in texts]
    if all(zone in {"", "Z", "UTC", "GMT", "+00:00", "+0000", "+00"} for zone in zones):
        return ""
    return ", moved to UTC" + ("; those without an offset count as UTC" if "" in zones else "")


def _words(name: str, texts: list[str], *, named: bool) -> Column:
    distinct, count = len(set(texts)), len(texts)
    words = sum(len(text.split()) for text in texts) / count
    looks = _like_dates(texts) or _like_numbers(texts)
    if looks and distinct > MAX_ODD and not named:
        return Column(name, "ignore", f"{distinct} different texts{looks}")
    if distinct > 0.95 * count and count >= FEW_ROWS and words < 2 and not named:
        return Column(name, "ignore", f"an identifier: {distinct} of {count} texts differ")
    if words >= 3 or (distinct > max(50, 0.5 * count) and words >= 1.5):
        return Column(name, "text", f"free text: {words:.0f} words on average", BUCKETS)
    return Column(name, "category", f"{distinct} different texts{looks}")


def _like_dates(texts: list[str]) -> str:
    """Return in words that most cells are dates, in a way that is not read; empty where they are not."""
    short = sum(SHORT_DATE.fullmatch(text) is not None for text in texts)
    if short >= MOSTLY * len(texts):
        return "; like dates with years of two digits: write four"
    some = texts[:SOME]
    able = [any(_is("date", text, format=form, width=2) for form in transform.DATES) for text in some]
    return "; like dates in several forms: write one" if sum(able) >= MOSTLY * len(some) else ""


def _like_numbers(texts: list[str]) -> str:
    """Return in words that most cells are numbers of a kind that is not read; empty where they are not."""
    found = [text for text in texts if NUMBER.fullmatch(text.translate(PLAIN))]
    if len(found) < MOSTLY * len(texts) or _are_codes(texts):
        return ""
    return f"; like numbers, but of several units or marks ({', '.join(repr(one[:20]) for one in found[:3])})"
