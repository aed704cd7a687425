"""Tables drawn from a typed model, written in many dialects and formats, and compared with what was understood of them.

Only what one reading fits is drawn: a day above 12 in every column of 31/12/2024, a mark that says which of comma and
point divides thousands. What is drawn is then either understood, or refused in words.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather, parquet

SWAPPED = str.maketrans({",": ".", ".": ","})
EPOCH = date(1970, 1, 1).toordinal()
FIRST = datetime(1999, 12, 13, 9, 5)  # noqa: DTZ001 - of no zone
HOLES = ("", "NA", "n/a", "null", "None", "NaN", "?")
ODD = ("see note", "tbd", "unknown", "n.v.")
SPELLINGS: dict[str, Callable[[float], str]] = {
    "plain": lambda v: f"{v:.2f}",
    "whole": lambda v: f"{round(v)}",
    "short": lambda v: f"{v:g}",
    "plus": lambda v: f"{v:+.2f}",
    "scientific": lambda v: f"{v:.6e}",
    "padded": lambda v: f" {v:.2f} ",
    "decimal comma": lambda v: f"{v:.2f}".replace(".", ","),
    "thousands": lambda v: f"{round(v):,}",
    "thousands and cents": lambda v: f"{v:,.2f}",
    "german": lambda v: f"{v:,.2f}".translate(SWAPPED),
    "swiss": lambda v: f"{v:,.2f}".replace(",", "'"),
    "thin": lambda v: f"{v:,.2f}".replace(",", "\u202f"),
    "french": lambda v: f"{v:,.2f}".replace(",", "\u00a0").replace(".", ","),
    "dollar": lambda v: f"{'-' if v < 0 else ''}${abs(v):,.2f}",
    "euro": lambda v: f"{v:,.2f}".translate(SWAPPED) + " €",
    "percent": lambda v: f"{v:.1f}%",
    "unit": lambda v: f"{v:.2f} kg",
    "code": lambda v: f"USD {v:.2f}",
    "comma, short": lambda v: f"{v:g}".replace(".", ","),
    "thousandths": lambda v: f"{v:.3f}",
    "thousandths, comma": lambda v: f"{v:.3f}".replace(".", ","),
    "millions": lambda v: f"{round(v):,}".replace(",", "."),
    "minus sign": lambda v: f"{v:.2f}".replace("-", "\u2212"),
    "brackets": lambda v: f"({-v:,.2f})" if v < 0 else f"{v:,.2f}",
}
"""Of numbers. What is written says how many digits count: a number means what stands there."""
WHOLE, DIGITS = {"whole", "thousands", "millions"}, {"percent": 1, "thousandths": 3, "thousandths, comma": 3}
WIDE = {
    "thousands",
    "thousands and cents",
    "german",
    "swiss",
    "thin",
    "french",
    "dollar",
    "euro",
    "brackets",
    "millions",
}
SURE = {
    "thousands": [987, 1234567],
    "millions": [7, 1234567, 2345678],
    "thousandths": [0.5],
    "thousandths, comma": [0.5],
    "comma, short": [0.5],
}
"""First numbers of a column, which say what its marks are."""
DATES = {
    "%Y-%m-%d": False, "%d.%m.%Y": False, "%d/%m/%Y": False, "%m/%d/%Y": False, "%Y/%m/%d": False, "%d-%b-%Y": False,
    "%d %B %Y": False, "%G-W%V-%u": False, "%Y-%m-%d %H:%M:%S": True, "%Y-%m-%dT%H:%M:%SZ": True,
    "%Y-%m-%dT%H:%M:%S+00:00": True, "%d.%m.%Y %H:%M": True, "%b %d, %Y": False, "%d-%m-%Y": False,
    "%m/%d/%Y %I:%M %p": True,
}  # fmt: skip
"""Spellings of dates, and whether they have a time of day."""
NAMES = (
    "basic",
    "plus",
    "Größe XL",
    'the "best"',
    "a, b",
    "x;y",
    "deux|trois",
    "日本",
    "it's",
    "C#",
    "1st",
    "very good",
)
BOOLEANS = (("yes", "no"), ("True", "False"), ("Y", "N"), ("t", "f"), ("YES", "NO"))
WORDS = (
    "the bill was wrong again",
    "all fine so far, thanks",
    "cannot log in today",
    'he said "no" to us',
    "où est la clé",
)
OF_NUMBERS = re.compile(r"number|thousand|decimal|currenc|unit|sign|percent|%|[$€]", re.IGNORECASE)
OF_DATES = re.compile(r"date|time|zone|month|week", re.IGNORECASE)


@dataclass
class Drawn:
    """A column: its cells as written and as typed, and what they mean."""

    kind: str
    spelling: str
    cells: list[str] = field(default_factory=list)
    typed: list[Any] = field(default_factory=list)
    meant: list[Any] = field(default_factory=list)
    """None: missing."""
    odd: set[int] = field(default_factory=set)
    """Rows whose cell is dirt: missing, or an error that names it."""


def numbers(draw: random.Random, spelling: str, rows: int) -> Drawn:
    """Return a column of numbers; the marks of one spelling are never those of another."""
    found = Drawn("number", spelling)
    digits = 0 if spelling in WHOLE else DIGITS.get(spelling, 2)
    signed = draw.random() < 0.4 or spelling in {"minus sign", "brackets"}
    first = SURE.get(spelling, [])
    for row in range(rows):
        size = 10 ** draw.uniform(0, 6.4 if spelling in WIDE else 2.9) / (1000 if digits == 3 else 1)
        value = first[row] if row < len(first) else size * (-1 if signed and row % 3 == 1 else 1)
        value = float(f"{value:g}") if spelling.endswith("short") else round(value, digits)
        found.typed.append(value)
        found.cells.append(SPELLINGS[spelling](value))
    found.meant = list(found.typed)
    return found


def dates(draw: random.Random, spelling: str, rows: int) -> Drawn:
    """Return a column of dates: (day, seconds or none); the first is of the 31st."""
    found = Drawn("date", spelling)
    for row in range(rows):
        moment = FIRST.replace(day=31) if row == 0 else FIRST + timedelta(minutes=draw.randrange(12_000_000))
        moment = moment.replace(second=0)
        seconds = moment.hour * 3600.0 + moment.minute * 60.0 if DATES[spelling] else None
        found.cells.append(moment.strftime(spelling))
        found.typed.append(moment if seconds is not None else moment.date())
        found.meant.append((float(moment.toordinal() - EPOCH), seconds))
    return found


def names(draw: random.Random, spelling: str, rows: int) -> Drawn:
    """Return a column of categories, booleans or texts."""
    chosen: dict[str, Any] = {
        "category": draw.sample(NAMES, draw.randint(2, 5)),
        "boolean": draw.choice(BOOLEANS),
        "text": list(WORDS),
    }
    pool = chosen[spelling]
    found = Drawn(spelling, spelling, [pool[row] if row < len(pool) else draw.choice(pool) for row in range(rows)])
    found.meant = [cell == pool[0] for cell in found.cells] if spelling == "boolean" else list(found.cells)
    found.typed = list(found.meant)
    return found


def dirtied(draw: random.Random, column: Drawn, holes: float, odd: int) -> Drawn:
    """Put holes into a column, and odd words into one of numbers; the first rows are left, which say what it is."""
    for row in range(5, len(column.cells)):
        if draw.random() < holes:
            column.cells[row], column.typed[row], column.meant[row] = draw.choice(HOLES), None, None
    for row in draw.sample(range(5, len(column.cells)), odd if column.kind == "number" else 0):
        column.cells[row], column.typed[row], column.meant[row] = draw.choice(ODD), None, None
        column.odd.add(row)
    return column


def _text(table: Mapping[str, list[Any]], sep: str = ",", end: str = "\n", quoting: Any = csv.QUOTE_MINIMAL) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=sep, lineterminator=end, quoting=quoting)
    writer.writerows([list(table), *zip(*table.values(), strict=True)])
    return out.getvalue()


def _json(table: Mapping[str, list[Any]]) -> bytes:
    rows = zip(*table.values(), strict=True)
    plain = [[cell.isoformat() if isinstance(cell, date) else cell for cell in row] for row in rows]
    return "\n".join(json.dumps(dict(zip(table, row, strict=True))) for row in plain).encode() + b"\n"


def _arrow(table: Mapping[str, list[Any]], path: Path) -> None:
    (parquet.write_table if path.suffix == ".parquet" else feather.write_feather)(pa.table(dict(table)), str(path))


FORMATS: dict[str, tuple[str, str, Any, str]] = {
    "comma": ("csv", "rows.csv", lambda t: _text(t).encode(), ""),
    "semicolon": ("csv", "rows.csv", lambda t: _text(t, ";").encode(), ""),
    "tab": ("csv", "rows.tsv", lambda t: _text(t, "\t").encode(), ""),
    "pipe": ("csv", "rows.csv", lambda t: _text(t, "|").encode(), ""),
    "quoted": ("csv", "rows.csv", lambda t: _text(t, quoting=csv.QUOTE_ALL).encode(), ""),
    "CRLF": ("csv", "rows.csv", lambda t: _text(t, end="\r\n").encode(), ""),
    "CR": ("csv", "rows.csv", lambda t: _text(t, end="\r").encode(), r"\bCR\b|carriage|line end"),
    "mark": ("csv", "rows.csv", lambda t: _text(t).encode("utf-8-sig"), ""),
    "UTF-16": ("csv", "rows.csv", lambda t: _text(t, ";").encode("utf-16"), ""),
    "no last line end": ("csv", "rows.csv", lambda t: _text(t).rstrip("\n").encode(), ""),
    "gzip": ("csv", "rows.csv.gz", lambda t: gzip.compress(_text(t).encode(), mtime=0), "gzip|compress"),
    "JSON of texts": ("jsonl", "rows.jsonl", _json, ""),
    "parquet of texts": ("parquet", "rows.parquet", None, ""),
    "feather of texts": ("arrow", "rows.feather", None, ""),
    "JSON": ("jsonl", "rows.jsonl", _json, ""),
    "parquet": ("parquet", "rows.parquet", None, ""),
    "feather": ("arrow", "rows.feather", None, ""),
}
"""Source, file, what writes it, and words of the refusal that it may meet."""
TYPED = {"JSON", "parquet", "feather"}


def written(folder: Path, columns: Mapping[str, Drawn], form: str) -> tuple[str, str]:
    """Write the columns in a format; return the source that reads them, and the file's name."""
    source, name, write, _ = FORMATS[form]
    table = {key: column.typed if form in TYPED else column.cells for key, column in columns.items()}
    if write is None:
        _arrow(table, folder / name)
    else:
        (folder / name).write_bytes(write(table))
    return source, name


def differences(loaded: Any, columns: Mapping[str, Drawn], target: str) -> list[str]:
    """Return what was understood otherwise than it was drawn, without a word."""
    inputs, targets = loaded.samples.base[0].numpy(), loaded.samples.base[1].numpy()
    drawn = columns[target]
    if len(inputs) != len(drawn.cells):
        return [f"{len(inputs)} rows instead of {len(drawn.cells)}"]
    found = _of_target(drawn, targets.reshape(-1).tolist(), loaded.class_names)
    place = 0
    for column in loaded.schema.columns:
        found += _of_column(columns[column.name], column, inputs[:, place : place + column.width].tolist())
        place += column.width if column.kind != "ignore" else 0
    return found


def _of_target(drawn: Drawn, values: list[float], classes: list[str] | None) -> list[str]:
    if (classes is None) != (drawn.kind == "number"):
        return [f"the target is {'a number' if classes is None else f'classes: {classes[:4]}'}, drawn as {drawn.kind}"]
    same = [
        math.isclose(value, meant, rel_tol=1e-5, abs_tol=1e-5) if classes is None else classes[int(value)] == meant
        for value, meant in zip(values, drawn.meant, strict=True)
    ]
    return [] if all(same) else [f"the target's {drawn.cells[same.index(False)]!r} became {values[same.index(False)]}"]


def _of_column(drawn: Drawn, column: Any, rows: list[list[float]]) -> list[str]:
    name = f"{column.name} ({drawn.spelling})"
    if column.kind != drawn.kind:
        words = {"number": OF_NUMBERS, "date": OF_DATES}.get(drawn.kind)
        is_said = words is not None and words.search(column.reason)
        return [] if is_said else [f"{name} is {column.kind} ({column.reason}), drawn as {drawn.kind}"]
    known = {code: value for value, code in column.values.items()}
    for row, values in enumerate(rows):
        if not _is_meant(drawn, drawn.meant[row], values, known):
            return [f"{name}: {drawn.cells[row]!r} became {values[:2]}, and means {drawn.meant[row]!r}"]
    return []


def _is_meant(drawn: Drawn, meant: Any, values: list[float], known: Mapping[int, str]) -> bool:
    if meant is None:
        return math.isnan(values[0])
    if drawn.kind == "date":
        return values[0] == meant[0] and (meant[1] is None or values[1:] == [meant[1]])
    if drawn.kind == "category":
        return not math.isnan(values[0]) and known.get(int(values[0])) == meant
    if drawn.kind == "text":
        return not math.isnan(values[0]) and sum(values) > 0
    return math.isclose(values[0], float(meant), rel_tol=1e-5, abs_tol=1e-5)
