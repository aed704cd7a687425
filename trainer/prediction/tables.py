"""Rows of a table, as the user has them: a CSV file, JSON lines, or one row as JSON."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.data.table.transform import EPOCH, TORN, Row, begun, encode_rows, opened, read_rows, text_of
from trainwright.trainer.prediction.frame import Batch, Sample, WrongInputError

AT_ONCE = 1024
DELIMITERS = (",", ";", "\t", "|")
OF_OTHERS = frozenset({".parquet", ".xlsx", ".xls", ".ods", ".arrow", ".feather", ".orc", ".sqlite", ".db"})
"""Endings of tables that are no text."""


class TableRows:
    """Rows of a table. Columns that the model does not take name the row among the answers; of ranked rows all do."""

    takes: ClassVar[str] = "a file of rows (CSV with any delimiter, .jsonl, .json), or one row as JSON"
    stdin: ClassVar[str] = ".csv"

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:  # noqa: ARG002 - as of the others
        self.schema, self.columns = schema, schema["columns"]
        self.names = [column["name"] for column in self.columns]
        self.group = schema.get("answer", {}).get("group")

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield rows; all of an argument at once where they are ranked. Raises WrongInputError."""
        at_once = None if self.group else AT_ONCE  # the rows of a group may be anywhere
        for argument in given:
            first, rows = 1, read_any(argument, self.schema)
            while True:
                with guarded(argument, self.schema):
                    some, respelled = as_known(islice(rows, at_once), self.columns)
                    inputs = encode_rows(some, self.schema, first)
                if not some:
                    break
                samples = [self._sample(row, {"row": first + place}) for place, row in enumerate(some)]
                for sample, row, numbers, notes in zip(samples, some, inputs.tolist(), respelled, strict=True):
                    sample.notes += [*notes, *odd_values(row, numbers, self.columns)]
                yield samples, {"input": inputs}
                first += len(some)

    def _sample(self, row: Row, place: dict[str, Any]) -> Sample:
        if self.group:
            return Sample(place | row, details={"group": row.get(self.group)})
        return Sample(place | {name: cell for name, cell in row.items() if name not in self.names})


@contextmanager
def guarded(argument: str, schema: dict[str, Any]) -> Iterator[None]:
    """Raise WrongInputError for what is no file of the model's rows."""
    columns = ", ".join(column["name"] for column in schema["columns"])
    if Path(argument).suffix.lower() in OF_OTHERS:
        raise WrongInputError(f"{argument[:60]}: it is no CSV and no JSON.", "Save its rows as CSV in UTF-8.")
    try:
        yield
        return
    except UnicodeDecodeError as problem:
        what, remedy = f"it is no text in {problem.encoding} ({problem.reason})", "Save it as CSV in UTF-8."
    except OSError as problem:
        what, remedy = problem.strerror or str(problem), "Name a file of rows, or give one row as JSON."
    except (ValueError, csv.Error, *TORN) as problem:
        what, remedy = str(problem), f"Correct it; the model takes the columns {columns}."
    raise WrongInputError(f"{argument[:60] or 'an empty argument'}: {what}.", remedy)


def read_any(argument: str, schema: dict[str, Any]) -> Iterator[Row]:
    """Yield the rows of a file, or of JSON in the argument itself. Raises errors of these."""
    path, text = Path(argument), argument.lstrip()
    if text.startswith(("{", "[")):
        found = json.loads(text)
        rows = found if isinstance(found, list) else [found]
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("it is no object of columns, and no list of them")
        yield from rows
    elif path.suffix in {".jsonl", ".ndjson", ".json"}:
        yield from read_rows(path, schema)
    else:
        yield from read_rows(path, schema | {"delimiter": delimiter_of(path, schema)})


def delimiter_of(path: Path, schema: dict[str, Any]) -> str:
    """Return the delimiter under which a file has most of the model's columns; that of training where it is one."""
    usual, wanted = schema.get("delimiter") or ",", {column["name"] for column in schema["columns"]}
    names = schema.get("names") if not schema.get("header") else None
    found: dict[str, int] = {}
    for delimiter in dict.fromkeys((usual, *DELIMITERS)):
        with opened(path, schema.get("encoding") or "utf-8-sig") as file:
            cells: list[str] = next((one for one in begun(file, schema | {"delimiter": delimiter})[1] if one), [])
        has = {cell.strip() for cell in cells}
        found[delimiter] = len(has & wanted) if names is None else -abs(len(cells) - len(names))
    return max(found, key=lambda one: found[one])


def as_known(rows: Iterable[Row], columns: Sequence[dict[str, Any]]) -> tuple[list[Row], list[list[str]]]:
    """Return rows with categories spelled as in training where capitals alone differ, and a note for each such cell."""
    known = {column["name"]: column["values"] for column in columns if column["kind"] == "category"}
    folded: dict[str, dict[str, list[str]]] = {name: {} for name in known}
    for name, values in known.items():
        for value in values:
            folded[name].setdefault(value.casefold(), []).append(value)
    found, notes = [], []
    for row in rows:
        cells = {name: text for name in known if (text := text_of(row.get(name))) is not None}
        alike = {name: folded[name].get(text.casefold(), []) for name, text in cells.items() if text not in known[name]}
        changed = {name: spellings[0] for name, spellings in alike.items() if len(spellings) == 1}
        found.append({**row, **changed})
        notes.append([f"{name}: {cells[name][:40]!r} was read as {value!r}" for name, value in changed.items()])
    return found, notes


def odd_values(row: Row, numbers: Sequence[float], columns: Sequence[dict[str, Any]]) -> list[str]:
    """Return a note for each value that training did not meet: a new category, a number beyond its range."""
    found, at = [], 0
    for column in columns:
        value, cell = numbers[at], row.get(column["name"])
        at += column["width"]
        if column["kind"] == "category" and value < 0:
            found.append(f"{column['name']}: {str(cell)[:40]!r} is not in the training data")
        low, high = column.get("range") or (-math.inf, math.inf)
        if not math.isnan(value) and not low <= value <= high:
            reach = [date.fromordinal(int(one) + EPOCH).isoformat() if column["kind"] == "date" else f"{one:.7g}"
                     for one in (low, high)]  # fmt: skip
            found.append(f"{column['name']}: {str(cell)[:40]} is beyond the training data ({reach[0]} to {reach[1]})")
    return found
