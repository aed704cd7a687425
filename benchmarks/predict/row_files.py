"""Rows of `make predict`, written as each format that a source reads has them."""

from __future__ import annotations

import csv
import json
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[2]))  # what the tests share is named from the root, as pytest has it
from tests.trainer.data.spreadsheets import write_xlsx

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]


def write_rows(path: Path, rows: list[Row], delimiter: str = ",") -> None:
    """Write rows as their file's ending says."""
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".xlsx":
        write_xlsx(path, {"customers": [list(rows[0]), *([_cell(cell) for cell in row.values()] for row in rows)]})
    elif path.suffix == ".db":
        _write_table(path, rows)
    else:
        _write_columns(path, rows)


def _write_table(path: Path, rows: list[Row]) -> None:
    names = list(rows[0])
    with sqlite3.connect(path) as database:
        kinds = ", ".join(f"{name} {_kind([row[name] for row in rows])}" for name in names)
        database.execute(f"create table customers ({kinds}, primary key (id))")
        marks = ", ".join("?" * len(names))
        values = [[_cell(cell) for cell in row.values()] for row in rows]
        database.executemany(f"insert into customers values ({marks})", values)  # noqa: S608 - names of our own
    database.close()


def _kind(cells: list[Any]) -> str:
    kinds = {type(cell) for cell in cells if cell != ""}
    return "text" if str in kinds else "real" if float in kinds else "integer"


def _write_columns(path: Path, rows: list[Row]) -> None:
    import pyarrow as pa
    from pyarrow import orc, parquet

    found = pa.Table.from_pylist([{key: _cell(cell) for key, cell in row.items()} for row in rows])
    if path.suffix == ".orc":
        orc.write_table(found, path)
    elif path.suffix == ".parquet":
        parquet.write_table(found, path)
    else:
        _write_arrow(path, found)


def _write_arrow(path: Path, found: pa.Table) -> None:
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
        writer.write_table(found)


def _cell(cell: Any) -> Any:
    """Return a cell, None for an empty one."""
    return None if cell == "" else cell
