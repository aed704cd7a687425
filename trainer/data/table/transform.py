"""Transform of a table's raw rows into a model's inputs. Needs Python and NumPy: it is a part of `predict.py`."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import numpy as np

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "<na>", "?"})
"""Cells that hold no value, in lower case and without the spaces around them."""
TRUE, FALSE = frozenset({"true", "yes", "t", "y", "1"}), frozenset({"false", "no", "f", "n", "0"})
MONTHS = {
    name[:length]: number
    for number, names in enumerate(
        ("january januar jänner janvier enero gennaio janeiro", "february februar febrero febbraio février fevereiro",
         "march märz mrz mars marzo março maart mrt", "april aprile avril abril", "mayo mai maio maggio mei",
         "june juni juin junio junho giugno", "july juli juillet julio julho luglio", "augustus août aout agosto",
         "september septembre septiembre settembre setembro", "october octobre octubre oktober ottobre outubro",
         "november novembre noviembre novembro", "december décembre diciembre dicembre dezember dezembro"), start=1,
    )
    for name in names.split()
    for length in range(4 if name.startswith("jui") else 3, len(name) + 1)
}  # fmt: skip
"""Number of a month by its name, or its first letters: English, German, French, Spanish, Italian, Portuguese, Dutch."""
_MONTH = r"(?P<b>[^\W\d_]{3,10})\.?"
_WEEKDAY = r"(?:[^\W\d_]{2,10}\.?,? )?"
DATES = {
    "year-month-day": r"(?P<Y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})",
    "day.month.year": r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<Y>\d{4})",
    "day/month/year": r"(?P<d>\d{1,2})[/-](?P<m>\d{1,2})[/-](?P<Y>\d{4})",
    "month/day/year": r"(?P<m>\d{1,2})[/-](?P<d>\d{1,2})[/-](?P<Y>\d{4})",
    "day month year": rf"{_WEEKDAY}(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)?[ -]+(?:de )?{_MONTH}[ -]+(?:de )?(?P<Y>\d{{4}})",
    "month day, year": rf"{_WEEKDAY}{_MONTH} +(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,? +(?P<Y>\d{{4}})",
    "year-week": r"(?P<Y>\d{4})-?W(?P<V>\d{2})(?:-?(?P<u>[1-7]))?",
    "year-day": r"(?P<Y>\d{4})-(?P<j>\d{3})",
    "yearmonthday": r"(?P<Y>(?:19|20)\d{2})(?P<m>\d{2})(?P<d>\d{2})",
}
"""Dates by the name of their form. A week without its day stands for its Monday."""
TIME = (
    r"(?:(?:[T ]|, ?)(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,]\d{1,9})?)?(?: ?(?P<p>[ap])\.?m\.?)?"
    r"(?: ?(?:Z|UTC|GMT|(?P<z>[-+]\d{2}:?(?:\d{2})?))(?:\[[\w/+-]+\])?)?)?"
)
"""A time of day, midnight where a date has none; with an offset it is moved to UTC."""
EITHER = "a thousand or a decimal, which no number of training tells: write 1234, or 1.2340"
CURRENCY = r"[A-Z]{0,3}[$\u20ac\u00a3\u00a5\u20b9\u20bd\u20a9\u20ba\u20b4\u20aa\u20ab\u0e3f\u00a2]|[A-Z]{3}"
NUMBER = re.compile(
    rf"(?P<open>\()?(?P<sign>[-+])?(?P<before>{CURRENCY})? ?(?P<inner>[-+])?(?P<digits>(?:\d[\d.,'\u2019 ]*|[.,]\d)\d*)"
    rf"(?P<power>[eE][-+]?\d+)? ?(?P<after>{CURRENCY}|[%\u2030]|[^\W\d_]{{1,12}}[23]?(?:/[^\W\d_]{{1,4}}[23]?)?"
    r"|\u00b0[CFK]?|[\"'\u2032\u2033]|[^\W\d_]{1,3}[\u00b2\u00b3])?(?P<behind>-)?(?P<close>\))?"
)
"""A number as people write it: sign, currency, digits with marks, power of ten, unit; negative in brackets."""
PLAIN = str.maketrans({"\u2212": "-", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2019": "'"})
"""Characters of numbers that stand for others: the minus of typesetters, spaces that do not break a line."""
WORDS = re.compile("[^\x00-/:-@\\[-`{-\x7f\u00a0\u2000-\u206f\u3000-\u3003]+")
Row = dict[str, Any]
LINES = 200
"""First lines, among which a header is looked for."""
SEP = re.compile(r'"?sep=(.)"?[;,\t]*', re.IGNORECASE)
csv.field_size_limit(2**31 - 1)  # of the C library's long on every platform: a cell may be a whole document
EPOCH = date(1970, 1, 1).toordinal()


def text_of(cell: Any) -> str | None:
    """Return a cell as text; None where it holds no value. A whole number reads the same from CSV and JSON."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        cell = int(cell)
    text = str(cell).strip()
    return None if text.lower() in MISSING else text


def number(text: str, column: Row) -> list[float]:
    """Return a finite number, read by the column's marks: its decimal mark, that of thousands, its unit."""
    if column.get("decimal", ".") is None and re.fullmatch(r"[-+]?[1-9]\d{0,2}[.,]\d{3}", text):
        raise ValueError(EITHER)
    found = math.nan if column.get("decimal") == "," or column.get("unit") == "%" else _float(text)
    if math.isnan(found):
        found = _written(text.translate(PLAIN), column)
    if not math.isfinite(found):
        raise ValueError("no finite number")
    return [found]


def _float(text: str) -> float:
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def _written(text: str, column: Row) -> float:
    """Return a number as people write it; NaN for one with other marks than the column's, or another unit."""
    found = NUMBER.fullmatch(text)
    if found is None:
        return math.nan
    units = {unit for unit in (found["before"], found["after"]) if unit}
    signs = [sign for sign in (found["sign"], found["inner"], found["behind"]) if sign]
    in_brackets = found["open"] is not None
    if units - {column.get("unit")} or (column.get("unit") == "%" and not units):  # 0.45 beside 45%: nobody knows
        return math.nan
    if len(signs) + in_brackets > 1 or in_brackets != (found["close"] is not None):
        return math.nan
    decimal, thousands = column.get("decimal") or ".", column.get("thousands")
    whole, point, rest = found["digits"].rstrip().partition(decimal)
    if thousands and thousands in whole:
        mark = re.escape(thousands)
        if re.fullmatch(rf"\d{{1,3}}(?:{mark}\d{{2,3}})*{mark}\d{{3}}", whole) is None:
            return math.nan
        whole = whole.replace(thousands, "")
    if decimal == "," and re.fullmatch(r"\d{1,3}\.\d{3}", whole):  # a thousand, or written by another rule
        return math.nan
    size = _float(whole + (f".{rest}" if point else "") + (found["power"] or ""))
    return -size if in_brackets or "-" in signs else size


def boolean(text: str, column: Row) -> list[float]:  # noqa: ARG001 - as the others
    """Return 1 or 0."""
    if text.lower() not in TRUE | FALSE:
        raise ValueError("neither true nor false")
    return [float(text.lower() in TRUE)]


def moment(text: str, column: Row) -> list[float]:
    """Return days since 1970-01-01 and, where the column has times of day, seconds since midnight, of UTC if known."""
    pattern = DATES[column["format"]] + (TIME if column["width"] > 1 else "")
    found = re.fullmatch(pattern, text, re.IGNORECASE)
    if found is None:
        raise ValueError("no date written as " + column["format"] + (" and time" if column["width"] > 1 else ""))
    parts = found.groupdict()
    try:
        days = float(_day(parts).toordinal() - EPOCH)
    except ValueError:
        raise ValueError("no day of the calendar") from None
    if column["width"] == 1:
        return [days]
    later, seconds = divmod(_seconds(parts), 86400.0)
    return [days + later, seconds]


def _day(parts: dict[str, str | None]) -> date:
    year = int(parts["Y"] or 0)
    if parts.get("V"):
        return date.fromisocalendar(year, int(parts["V"] or 0), int(parts["u"] or 1))
    if parts.get("j"):
        found = date.fromordinal(date(year, 1, 1).toordinal() + int(parts["j"] or 0) - 1)
        if found.year != year:
            raise ValueError("no day of its year")
        return found
    name = (parts.get("b") or "").lower()
    month = MONTHS.get(name) if name else int(parts["m"] or 0)
    if month is None:
        raise ValueError("no name of a month")
    return date(year, month, int(parts["d"] or 0))


def _seconds(parts: dict[str, str | None]) -> float:
    """Return seconds since midnight of UTC, negative where that day begins later."""
    hour, minute, second = (int(parts[name] or 0) for name in "HMS")
    if parts["p"]:
        if not 1 <= hour <= 12:
            raise ValueError("no time of day")
        hour = hour % 12 + (12 if parts["p"].lower() == "p" else 0)
    if hour > 23 or minute > 59 or second > 60:
        raise ValueError("no time of day")
    offset = (parts["z"] or "+00").replace(":", "")
    away = int(offset[1:3]) * 3600.0 + int(offset[3:] or 0) * 60.0
    return hour * 3600.0 + minute * 60.0 + second - (-away if offset[0] == "-" else away)


def category(text: str, column: Row) -> list[float]:
    """Return the category's number, -1 for one that training did not meet."""
    return [float(column["values"].get(text, -1))]


def words(text: str, column: Row) -> list[float]:
    """Return how many words fall into each of `width` buckets."""
    counts = [0.0] * column["width"]
    for word in WORDS.findall(text):
        counts[zlib.crc32(word.lower().encode()) % column["width"]] += 1.0
    return counts


KINDS: dict[str, Callable[[str, Row], list[float]]] = {
    "number": number, "boolean": boolean, "date": moment, "category": category, "text": words,
}  # fmt: skip


def encode(cell: Any, column: Row) -> list[float]:
    """Return a cell as numbers, NaN where it holds no value. Raises ValueError for one of another kind."""
    text = text_of(cell)
    if text is None:
        return [math.nan] * column["width"]
    if column["kind"] == "number" and not isinstance(cell, str):
        return number(text, {})  # marks are of what people write
    return KINDS[column["kind"]](text, column)


def encode_rows(rows: Iterable[Row], schema: Row, first: int = 1) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the program's inputs, (rows, inputs) of float32, for rows given as dicts by column name.

    `first` is the number of the first row. Raises ValueError for a cell of another kind, a column that is not there, or
    a hole where training had none.
    """
    import numpy as np

    rows = list(rows)
    for column in schema["columns"]:
        if rows and not any(column["name"] in row for row in rows):
            there = ", ".join(map(str, rows[0]))
            raise ValueError(f"no row has the column {column['name']!r}; the first row has: {there}")
    found = []
    for place, row in enumerate(rows, start=first):
        numbers: list[float] = []
        for column in schema["columns"]:
            try:
                encoded = encode(row.get(column["name"]), column)
            except (ValueError, OverflowError) as error:
                cell = row[column["name"]]
                raise ValueError(f"row {place}, column {column['name']!r}: {cell!r} is {error}") from None
            if not schema["takes_missing"] and math.isnan(encoded[0]):
                raise ValueError(f"row {place}, column {column['name']!r} is empty; no row of training was")
            numbers += encoded
        found.append(numbers)
    return np.array(found, dtype=np.float32).reshape(-1, sum(column["width"] for column in schema["columns"]))


def _member(path: Path) -> IO[bytes]:
    """Open the one file of a zip archive. Raises ValueError where it holds none or several."""
    archive = zipfile.ZipFile(path)
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
    if len(names) != 1:
        raise ValueError(f"it is a zip archive of {len(names)} files ({', '.join(names[:5])}): unpack it")
    return archive.open(names[0])


def _zstd(path: Path) -> IO[bytes]:
    try:
        return import_module("compression.zstd").open(path)  # type: ignore[no-any-return]  # from Python 3.14 on
    except ImportError:
        pass
    try:
        return import_module("pyarrow").input_stream(str(path), compression="zstd")  # type: ignore[no-any-return]
    except ImportError:
        raise ValueError("it is compressed by zstd, which this Python cannot read: unpack it (zstd -d)") from None


PACKED: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open, b"\x28\xb5\x2f\xfd": _zstd,
    b"PK\x03\x04": _member,
}  # fmt: skip
"""What opens a compressed file, by its first bytes: endings are often wrong."""
TORN = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError, NotImplementedError)
"""Errors of these for files that are cut short, damaged or locked."""


def packed(path: Path) -> Callable[[Path], IO[bytes]] | None:
    """Return what opens a compressed file: gzip, bzip2, xz, zstd, or a zip archive of one file; None for others."""
    with path.open("rb") as file:
        head = file.read(6)
    return next((opens for magic, opens in PACKED.items() if head.startswith(magic)), None)


def unpacked(path: Path) -> IO[bytes]:
    """Open a file's bytes, decompressed."""
    opens = packed(path)
    return path.open("rb") if opens is None else opens(path)


def opened(path: Path, encoding: str = "utf-8-sig") -> TextIO:
    """Open a file's text, decompressed as `unpacked` does, with its line ends as they are."""
    return io.TextIOWrapper(unpacked(path), encoding, newline="")


def begun(file: TextIO, how: Row) -> tuple[int, Any]:
    """Return how many lines of a text table stand above its first row or header, and a reader of cells from there on.

    Above it stand blank lines, Excel's `sep=;`, which names the delimiter, and comments, which begin with #.
    """
    lines, above, delimiter = list(islice(file, LINES)), 0, how.get("delimiter") or ","
    for place, line in enumerate(lines):
        said = SEP.fullmatch(line.rstrip("\r\n"))
        if said and not any(one.strip() for one in lines[:place]):
            delimiter = said[1]
        elif line.strip() and not (line.startswith("#") and not names_columns(lines[place:], delimiter)):
            break
        above = place + 1
    above = max(above, (how.get("header") or 1) - 1)
    return above, csv.reader(chain(lines[above:], islice(file, max(above - len(lines), 0), None)), delimiter=delimiter)


def names_columns(lines: list[str], delimiter: str) -> bool:
    """Return whether the first line, which begins with #, is a header: it has a name for each cell of the next one."""
    rows = list(islice((row for row in csv.reader(lines[:9], delimiter=delimiter) if row), 3))
    if len(rows) < 2 or not 1 < len(rows[0]) == len(rows[1]) or rows[1][0].startswith("#"):
        return False
    if len(rows) > 2 and any(map(is_number, rows[2])) and not any(map(is_number, rows[1])):
        return False  # the next line is the header
    return not any(" " in name.lstrip("# ").strip() for name in rows[0])


def is_number(cell: str) -> bool:
    """Return whether a cell is a number as programs write it."""
    return math.isfinite(_float(cell))


def read_rows(path: str | Path, schema: Row) -> Iterator[Row]:
    """Yield the rows of a CSV file, or of JSON, as dicts by column name; either may be compressed.

    Raises ValueError for a line that is no row: of JSON no object, of CSV more or fewer cells than the header.
    """
    path = Path(path)
    if not {".jsonl", ".ndjson", ".json"}.isdisjoint(path.suffixes):
        yield from (row for _, row in objects_of(path))
        return
    with opened(path, schema.get("encoding") or "utf-8-sig") as file:
        above, reader = begun(file, schema)
        lines, names = (cells for cells in reader if cells), schema.get("names")
        if names is None or schema.get("header"):
            header = [cell.strip() or f"column_{place}" for place, cell in enumerate(next(lines, []), start=1)]
            names = names or header
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"it has two columns named {twice[0]!r}")
        unlabelled = names if schema.get("header") != 0 else [name for name in names if name not in schema["targets"]]
        for cells in lines:
            known = names if len(cells) == len(names) else unlabelled
            if len(cells) != len(known):
                raise ValueError(f"line {above + reader.line_num} has {len(cells)} cells, the header has {len(names)}")
            yield dict(zip(known, cells, strict=True))


def objects_of(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield place and object of each row of JSON: of each line that is not blank, or of one list.

    Raises ValueError for a row that is none.
    """
    with opened(path) as file:
        lines = ((place, line) for place, line in enumerate(file, start=1) if line.strip())
        first = next(lines, (1, ""))
        if first[1].lstrip().startswith("["):
            rows = ((f"row {row}", value) for row, value in enumerate(_json("", first[1] + file.read()), start=1))
        else:
            rows = ((f"line {place}", _json(f"line {place}", line)) for place, line in chain([first], lines) if line)
        for place, row in rows:
            if not isinstance(row, dict):
                raise ValueError(f"{place} is not an object, but {type(row).__name__}")
            yield place, row


def _json(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is no JSON: {str(error)[:120]}".lstrip()) from None
