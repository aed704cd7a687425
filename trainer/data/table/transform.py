"""Transform of a table's raw rows into the inputs of the exported program. Needs Python and NumPy, and nothing else.

It lies beside `schema.json`, and gives the very numbers that training was given:

    python transform.py rows.csv            # or .jsonl; writes rows.npy, (rows, inputs) of float32
    python transform.py rows.csv model.onnx # with onnxruntime installed: prints each row's outputs as JSON
"""

from __future__ import annotations

import csv
import json
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "<na>", "?"})
"""Cells that hold no value, in lower case and without the spaces around them."""
TRUE, FALSE = frozenset({"true", "yes", "t", "y", "1"}), frozenset({"false", "no", "f", "n", "0"})
DATES = {
    "year-month-day": r"(?P<Y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})",
    "day.month.year": r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<Y>\d{4})",
    "day/month/year": r"(?P<d>\d{1,2})[/-](?P<m>\d{1,2})[/-](?P<Y>\d{4})",
    "month/day/year": r"(?P<m>\d{1,2})[/-](?P<d>\d{1,2})[/-](?P<Y>\d{4})",
}
TIME = r"[T ](?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|\+00:?00))?"
WORDS = re.compile("[^\x00-/:-@\\[-`{-\x7f\u00a0\u2000-\u206f\u3000-\u3003]+")
Row = dict[str, Any]
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
    """Return a finite number."""
    try:
        found = float(text.replace(",", ".") if column.get("decimal") == "," else text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found) or "_" in text:
        raise ValueError("no finite number")
    return [found]


def boolean(text: str, column: Row) -> list[float]:  # noqa: ARG001 - as the others
    """Return 1 or 0."""
    if text.lower() not in TRUE | FALSE:
        raise ValueError("neither true nor false")
    return [float(text.lower() in TRUE)]


def moment(text: str, column: Row) -> list[float]:
    """Return days since 1970-01-01 and, where the column has times of day, seconds since midnight."""
    found = re.fullmatch(DATES[column["format"]] + (TIME if column["width"] > 1 else ""), text, re.ASCII)
    if found is None:
        raise ValueError("no date written as " + column["format"] + (" and time" if column["width"] > 1 else ""))
    parts = {name: int(value or 0) for name, value in found.groupdict().items()}
    days = float(date(parts["Y"], parts["m"], parts["d"]).toordinal() - EPOCH)
    if column["width"] == 1:
        return [days]
    if parts["H"] > 23 or parts["M"] > 59 or parts["S"] > 60:
        raise ValueError("no time of day")
    return [days, parts["H"] * 3600.0 + parts["M"] * 60.0 + parts["S"]]


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
    "number": number,
    "boolean": boolean,
    "date": moment,
    "category": category,
    "text": words,
}


def encode(cell: Any, column: Row) -> list[float]:
    """Return a cell as numbers, NaN where it holds no value. Raises ValueError for one of another kind."""
    text = text_of(cell)
    return [math.nan] * column["width"] if text is None else KINDS[column["kind"]](text, column)


def encode_rows(rows: Iterable[Row], schema: Row) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the program's inputs, (rows, inputs) of float32, for rows given as dicts by column name.

    Raises ValueError for a cell of another kind, a column that is not there, or a hole where training had none.
    """
    rows = list(rows)
    for column in schema["columns"]:
        if rows and not any(column["name"] in row for row in rows):
            there = ", ".join(map(str, rows[0]))
            raise ValueError(f"no row has the column {column['name']!r}; the first row has: {there}")
    found = []
    for place, row in enumerate(rows, start=1):
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
    width = sum(column["width"] for column in schema["columns"])
    return np.array(found, dtype=np.float32).reshape(-1, width)


def read_rows(path: str | Path, schema: Row) -> Iterator[Row]:
    """Yield the rows of a CSV file, or of JSON lines, as dicts by column name.

    Raises ValueError for a line that is no row: of JSON no object, of CSV more or fewer cells than the header.
    """
    path = Path(path)
    if path.suffix in {".jsonl", ".ndjson"}:
        yield from _read_objects(path)
        return
    with path.open(encoding=schema.get("encoding") or "utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=schema.get("delimiter") or ",")
        lines = (cells for cells in reader if cells)
        header = [cell.strip() or f"column_{place}" for place, cell in enumerate(next(lines, []), start=1)]
        if twice := [name for name in header if header.count(name) > 1]:
            raise ValueError(f"it has two columns named {twice[0]!r}")
        for cells in lines:
            if len(cells) != len(header):
                raise ValueError(f"line {reader.line_num} has {len(cells)} cells, the header has {len(header)}")
            yield dict(zip(header, cells, strict=True))


def _read_objects(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig") as file:
        for place, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {place} is no JSON: {error}") from None
            if not isinstance(row, dict):
                raise ValueError(f"line {place} is no object of columns")
            yield row


def main(given: str, program: str | None = None) -> None:
    """Transform a file, and let the program predict where one is given. Raises as `encode_rows` and `read_rows`."""
    schema = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))
    inputs = encode_rows(read_rows(given, schema), schema)
    if not len(inputs):
        raise ValueError("it has no rows")
    if program is None:
        np.save(Path(given).with_suffix(".npy"), inputs)
        sys.stdout.write(f"{Path(given).stem}.npy: {inputs.shape[0]} rows of {inputs.shape[1]} inputs\n")
        return
    if not Path(program).is_file():
        raise ValueError(f"there is no program {program}")
    import onnxruntime

    session = onnxruntime.InferenceSession(program, providers=["CPUExecutionProvider"])
    for row in session.run(None, {session.get_inputs()[0].name: inputs})[0].tolist():
        sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    if len(sys.argv) not in {2, 3}:
        sys.exit("usage: python transform.py rows.csv [model.onnx]")
    try:
        main(*sys.argv[1:])
    except UnicodeDecodeError as problem:
        sys.exit(f"{sys.argv[1]}: it is no text in {problem.encoding}; CSV or JSON lines are read ({problem.reason})")
    except (OSError, ValueError, ImportError, csv.Error) as problem:
        sys.exit(f"{sys.argv[1]}: {problem}")
