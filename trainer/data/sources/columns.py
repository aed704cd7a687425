"""Tables of numbers read as whole columns, some rows at a time: two million rows take their own memory and little more.

Only what is plain is read so. Where a cell is no finite number, or a file is unusual in any way, None sends the caller
to read cell by cell, which decides and says where it stands; so a cell means the same either way.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 1 << 20
"""Of a csv file that are parsed together: what a core's cache holds."""
ROWS_AT_ONCE = 1 << 14
FEW = 20
"""Different whole numbers up to which a target is taken for classes."""
MAX_CLASSES = 1000

Array = np.ndarray[Any, Any]


class _Unusual(Exception):  # noqa: N818 - no error: the other way of reading decides
    """The table is none that can be read as whole columns."""


@dataclass(frozen=True)
class Columns:
    """A table of numbers."""

    features: list[str]
    inputs: Array
    """(rows, features) of float32."""
    targets: Array
    """(rows,): of int64 for classes, of float32 for numbers."""
    class_names: list[str] | None


def read_columns(
    kind: str, path: Path, *, target: str, features: Sequence[str] | None, task: str | None, delimiter: str = ","
) -> Columns | None:
    """Read a table of numbers, or return None where it has to be read cell by cell.

    Args:
        kind: csv, parquet or arrow; others are read cell by cell.
        path: the file, or the folder of an arrow data set.
        target: the column to predict.
        features: columns to predict from; None: all others.
        task: classification or regression; None: as the target looks.
        delimiter: between the cells of a csv file.
    """
    try:
        import pyarrow as pa
    except ImportError:
        return None
    try:
        table = _open(kind, path, delimiter)
        chosen = [name for name in table.header if name != target] if features is None else list(features)
        if len(set(table.header)) < len(table.header) or not {target, *chosen} <= set(table.header):
            return None
        if not chosen or target in chosen or len(set(chosen)) < len(chosen):
            return None
        return _read(table, target, chosen, task)
    except (_Unusual, OSError, ValueError, KeyError, TypeError, csv.Error, pa.ArrowException):
        return None
    finally:
        pa.default_memory_pool().release_unused()


def _read(table: _Open, target: str, chosen: list[str], task: str | None) -> Columns:
    inputs, targets = _Inputs(len(chosen)), _Targets()
    names = [target, *chosen]
    for first in range(0, len(names), table.columns_at_once):
        row = 0
        for batch in table.batches(names[first : first + table.columns_at_once]):
            inputs.make_room(row + batch.num_rows, grows=first == 0)
            for place, column in enumerate(batch.columns, start=first):
                if place == 0:
                    targets.add(column)
                else:
                    inputs.put(row, place - 1, column)
            row += batch.num_rows
    if not inputs.count:
        raise _Unusual
    with np.errstate(over="ignore"):
        return Columns(chosen, inputs.whole(), *targets.whole(task))


class _Inputs:
    """Rows of float32 that grow as they are read, in one piece of memory."""

    def __init__(self, width: int) -> None:
        self.rows = np.empty((0, width), dtype=np.float32)
        self.count = 0

    def make_room(self, count: int, *, grows: bool) -> None:
        if not grows and count > self.count:
            raise _Unusual
        if count > len(self.rows):  # the memory is moved by its addresses; a sixteenth more is all that it takes
            self.rows.resize((count + count // 16, self.rows.shape[1]), refcheck=False)
        self.count = max(count, self.count)

    def put(self, row: int, place: int, column: pa.Array) -> None:
        with np.errstate(over="ignore"):  # infinite then, which whoever checks the samples says
            self.rows[row : row + len(column), place] = _numbers(column)

    def whole(self) -> Array:
        self.rows.resize((self.count, self.rows.shape[1]), refcheck=False)
        return self.rows


@dataclass
class _Targets:
    """A target read as classes as long as few are met, and as numbers from then on."""

    names: dict[str, int] | None = field(default_factory=dict)
    """Number of each different cell; None: too many."""
    parts: list[Array] = field(default_factory=list)
    """Numbers of cells, and once these are too many, what the cells say."""

    def add(self, column: pa.Array) -> None:
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count or (pa.types.is_floating(column.type) and _has_negative_zero(column.to_numpy())):
            raise _Unusual
        if self.names is not None and not self._add_names(self.names, column):
            values = np.array([float(cell) for cell in self.names])
            self.names, self.parts = None, [values[codes] for codes in self.parts]
        if self.names is None:
            self.parts.append(_parsed(column))

    def _add_names(self, names: dict[str, int], column: pa.Array) -> bool:
        """Return whether the cells are still few; where not, nothing has been added."""
        encoded = column.dictionary_encode()
        if len(encoded.dictionary) > MAX_CLASSES:
            return False
        cells = [str(cell).strip() for cell in encoded.dictionary.to_pylist()]
        if len(names.keys() | set(cells)) > MAX_CLASSES:
            return False
        places = np.array([names.setdefault(cell, len(names)) for cell in cells], dtype=np.int32)
        self.parts.append(places[encoded.indices.to_numpy()])
        return True

    def whole(self, task: str | None) -> tuple[Array, list[str] | None]:
        """Return the targets and the names of classes, as `numbers.read_targets` does cell by cell."""
        if self.names is None:
            return self._many(task)
        cells = list(self.names)
        try:
            numbers = np.array([float(cell) for cell in cells])
        except ValueError:
            numbers = None
        few = numbers is None or (_are_whole(numbers) and len(set(numbers.tolist())) <= FEW)
        codes = np.concatenate(self.parts)
        if (task or ("classification" if few else "regression")) == "regression":
            if numbers is None or not np.isfinite(numbers).all():
                raise _Unusual
            return numbers.astype(np.float32)[codes], None
        if "" in self.names or len(cells) < 2:
            raise _Unusual
        ordered = sorted(cells, key=(lambda name: (float(name), name)) if numbers is not None else str)
        labels = {name: label for label, name in enumerate(ordered)}
        return np.array([labels[cell] for cell in cells], dtype=np.int64)[codes], ordered

    def _many(self, task: str | None) -> tuple[Array, list[str] | None]:
        numbers = np.concatenate(self.parts)
        if task == "classification" or (_are_whole(numbers) and len(np.unique(numbers)) <= FEW):
            raise _Unusual
        return numbers.astype(np.float32), None


def _parsed(column: pa.Array) -> Array:
    """Return the finite numbers, (rows,) of float64, that a column holds or that its texts say."""
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = compute.cast(compute.utf8_trim_whitespace(column), pa.float64())
    return _numbers(column).astype(np.float64)


def _has_negative_zero(values: Array) -> bool:
    """Return whether -0.0 is among the numbers: equal to 0.0, and another class by its name."""
    return bool((np.signbit(values) & (values == 0)).any())


def _are_whole(numbers: Array) -> bool:
    return bool((np.isfinite(numbers) & (numbers == np.floor(numbers))).all())


def _numbers(column: pa.Array) -> Array:
    """Return a column's finite numbers, as wide as Python's own; whole ones become floating first, as float() makes it.

    Raises:
        _Unusual: anything else is in it.
    """
    from pyarrow import types

    kind = column.type
    plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if not plain or column.null_count:
        raise _Unusual
    values: Array = column.to_numpy(zero_copy_only=False)
    values = values if values.dtype.kind == "f" else values.astype(np.float64)
    if not np.isfinite(values).all():
        raise _Unusual
    return values


class _Open:
    """A table of which a reader hands over some rows at a time."""

    header: list[str]
    columns_at_once: int = 1 << 30
    """Columns that are best read together, where a reader keeps much for each."""

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, with these columns."""
        raise NotImplementedError


class _Csv(_Open):
    def __init__(self, path: Path, delimiter: str) -> None:
        self.path, self.delimiter = path, delimiter
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter)
            self.header = [cell.strip() for cell in next(reader, [])]
            if reader.line_num != 1 or not any(self.header):
                raise _Unusual

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import csv as arrow

        kinds = {names[0]: pa.string(), **{name: pa.float64() for name in names[1:]}}
        return iter(
            arrow.open_csv(
                self.path,
                read_options=arrow.ReadOptions(block_size=BLOCK_BYTES, skip_rows=1, column_names=self.header),
                parse_options=arrow.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                convert_options=arrow.ConvertOptions(column_types=kinds, include_columns=names, null_values=[]),
            )
        )


class _Parquet(_Open):
    columns_at_once = 4

    def __init__(self, path: Path) -> None:
        from pyarrow import parquet

        self.file = parquet.ParquetFile(path, buffer_size=1 << 16)
        self.header = list(self.file.schema_arrow.names)

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        for batch in self.file.iter_batches(batch_size=ROWS_AT_ONCE, columns=names):
            yield batch.select(names)


class _Arrow(_Open):
    def __init__(self, folder: Path) -> None:
        from pyarrow import ipc

        if (folder / "dataset_dict.json").is_file():
            raise _Unusual
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        self.paths = [folder / Path(file["filename"]).name for file in state["_data_files"]]
        with ipc.open_stream(str(self.paths[0])) as reader:
            self.header = list(reader.schema.names)

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        from pyarrow import ipc

        for path in self.paths:
            with ipc.open_stream(str(path)) as reader:
                for batch in reader:
                    yield batch.select(names)


def _open(kind: str, path: Path, delimiter: str) -> _Open:
    if kind == "csv":
        return _Csv(path, delimiter)
    if kind == "parquet":
        return _Parquet(path)
    if kind == "arrow":
        return _Arrow(path)
    raise _Unusual
