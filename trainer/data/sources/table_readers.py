"""Tables in files: csv, JSON lines and Parquet, read into named columns. What cells hold is judged by who uses it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import DataError, near_matches
from trainwright.trainer.base.paths import files_among


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header; every row has a cell for every column."""

    path: Path
    header: list[str]
    rows: list[Sequence[Any]]
    places: Sequence[int]
    """Number of each row as a reader of the file would count it."""
    unit: str
    """What the places count: line or row."""

    def where(self, row: int) -> str:
        """Return where a row stands: `churn.csv line 3`."""
        return f"{self.path.name} {self.unit} {self.places[row]}"

    def column(self, name: str) -> list[Any]:
        """Return a column's cells. Raises DataError when there is no such column."""
        if name not in self.header:
            raise DataError(
                f"{self.path.name} has no column {name!r}.{near_matches(name, self.header)}",
                remedy=f"Name one of its columns: {', '.join(self.header[:20])}.",
            )
        place = self.header.index(name)
        return [row[place] for row in self.rows]


def read_csv(path: Path, *, delimiter: str = ",") -> Table:
    """Read a table with a header line; blank lines are left out.

    Raises:
        DataError: unreadable, empty, two columns of one name, or a row that is longer or shorter than the header.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter)
            lines = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(path, error) from error
    if len(lines) < 2:
        raise DataError(
            f"{path.name} has {len(lines)} line(s): a header line and at least one row are needed.",
            remedy="Point data.args.path at a table with data in it.",
        )
    header = [cell.strip() for cell in lines[0][1]]
    for line, row in lines[1:]:
        if len(row) != len(header):
            raise DataError(
                f"{path.name} line {line} has {len(row)} cells, the header has {len(header)}.",
                remedy="Repair the line, or set data.args.delimiter.",
            )
    return _checked(path, header, [row for _, row in lines[1:]], [line for line, _ in lines[1:]], "line")


def read_jsonl(path: Path) -> Table:
    """Read one JSON object per line; blank lines are left out. The columns are the keys of the first.

    Raises:
        DataError: unreadable, empty, a line that is no object, or one with other keys; it names the line.
    """
    records: list[tuple[int, dict[str, Any]]] = []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        try:
            record = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path.name} line {line} is no JSON: {str(error)[:120]}.", remedy="Repair or remove the line."
            ) from error
        if not isinstance(record, dict) or (records and record.keys() != records[0][1].keys()):
            wanted = f"an object with the keys {', '.join(records[0][1])}" if records else "an object"
            found = f"one with {', '.join(record) or 'none'}" if isinstance(record, dict) else type(record).__name__
            raise DataError(
                f"{path.name} line {line} is not {wanted}, but {found}.", remedy="Give every line the same keys."
            )
        records.append((line, record))
    if not records:
        raise DataError(f"{path.name} has no line with data.", remedy="Point data.args.path at a file with data in it.")
    header = list(records[0][1])
    rows = [[record[name] for name in header] for _, record in records]
    return _checked(path, header, rows, [line for line, _ in records], "line")


def read_parquet(path: Path) -> Table:
    """Read a Parquet file.

    Raises:
        DataError: unreadable or cut short, empty, or pyarrow is not installed.
    """
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise DataError(
            "Reading Parquet needs pyarrow, which is not installed.", remedy="Install pyarrow, or use csv."
        ) from error
    try:
        table = parquet.read_table(path)
        columns = [column.to_pylist() for column in table.columns]
    except (OSError, ArrowException) as error:
        raise unreadable(path, error) from error
    if not table.num_rows or not columns:
        raise DataError(f"{path.name} has no rows.", remedy="Point data.args.path at a table with data in it.")
    rows = list(zip(*columns, strict=True))
    return _checked(path, list(table.column_names), rows, range(1, len(rows) + 1), "row")


def read_arrow(path: Path) -> Table:
    """Read a data set of the Hugging Face library from the folder that save_to_disk wrote; the library is not needed.

    Raises:
        DataError: no such folder, a folder of several splits, unreadable or cut short, or pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import ipc
    except ImportError as error:
        raise DataError(
            "Reading a data set of the Hugging Face library needs pyarrow, which is not installed.",
            remedy="Install pyarrow, or use csv.",
        ) from error
    if (path / "dataset_dict.json").is_file():
        splits = sorted(child.name for child in path.iterdir() if child.is_dir())
        raise DataError(
            f"{path.name} holds several splits: {', '.join(splits)}.",
            remedy=f"Point data.args.path at one of them, for example {path.name}/{splits[0] if splits else 'train'}.",
        )
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        names = [Path(file["filename"]).name for file in state["_data_files"]]
        parts = []
        for name in names:
            with ipc.open_stream(str(path / name)) as reader:
                parts.append(reader.read_all())
        table = pa.concat_tables(parts)
        columns = [column.to_pylist() for column in table.columns]
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise unreadable(path, error) from error
    if not table.num_rows or not columns:
        raise DataError(f"{path.name} has no rows.", remedy="Point data.args.path at a data set with rows.")
    rows = list(zip(*columns, strict=True))
    return _checked(path, list(table.column_names), rows, range(1, len(rows) + 1), "row")


READERS: dict[str, Callable[..., Table]] = {
    "csv": read_csv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "arrow": read_arrow,
}


def files_of(path: Path) -> list[Path]:
    """Return the files of a source for the evidence: itself, or what lies in it."""
    return [path] if path.is_file() else sorted(files_among(path.iterdir()))


def _checked(path: Path, header: list[str], rows: list[Any], places: Sequence[int], unit: str) -> Table:
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(
            f"{path.name} has two columns named {twice[0]!r}.", remedy="Rename one of them in the file's header."
        )
    return Table(path, header, rows, places, unit)


def unreadable(path: Path, error: Exception) -> DataError:
    """Return the error for a file that its reader does not understand."""
    return DataError(
        f"{path.name} cannot be read: {str(error)[:200]}.",
        remedy="Point data.args.path at a readable file (csv, jsonl: UTF-8 text; npz: written by numpy.savez; parquet: "
        "whole; arrow: a folder of save_to_disk).",
    )
