"""Tables of numbers as samples: large ones by columns, in little more than their own memory.

Only plain files are read so. If a cell is no finite number, or a file is unusual in any way, it is read cell by cell,
which decides and reports the cell's place; so a cell means the same either way.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sources.cells import Batches, Cells, UnusualError, files_of
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.tensors import TensorSamples

if TYPE_CHECKING:
    import pyarrow as pa

    from trainwright.trainer.data.sources.tables import Numbers

SMALL_BYTES = 1 << 20
"""Files up to this size are read cell by cell at once, which takes no longer than loading the library for columns."""
FEW = 20
"""Different integers up to which a target is taken for classes."""
MAX_CLASSES = 1000

Array = np.ndarray[Any, Any]
Targets = tuple[Array, list[str] | None]
"""(rows,) of int64 with the names of classes, or of float32."""


def load_numbers(table: Numbers, path: Path) -> Loaded:
    """Read a table of numbers with named columns: inputs (rows, features) of float32, and targets (rows,).

    Raises:
        DataError: unreadable, empty, a missing column, or a cell that is no finite number; it names row and column.
    """
    files = files_of(path)
    large = sum(file.stat().st_size for file in files) > SMALL_BYTES
    features, inputs, (targets, classes) = (large and by_columns(table, path)) or _by_cells(table.cells(path), table)
    samples = TensorSamples(torch.from_numpy(inputs), torch.from_numpy(targets))
    return Loaded(samples, classes, features, standardize=table.standardize, files=files)


def _by_cells(cells: Cells, table: Numbers) -> tuple[list[str], Array, Targets]:
    chosen = table.features if table.features is not None else [name for name in cells.header if name != table.target]
    columns = [cells.column(name) for name in [table.target, *chosen]][1:]
    if not chosen:
        raise DataError(
            f"{cells.path.name} has no column but the target {table.target!r}.",
            remedy="Point data.args.path at a table with columns to predict from.",
        )
    numbers = [
        [_number(cell, cells, row, name) for row, cell in enumerate(column)]
        for name, column in zip(chosen, columns, strict=True)
    ]
    with np.errstate(over="ignore"):  # infinite then, which the check of the samples says
        inputs = np.array(list(zip(*numbers, strict=True)), dtype=np.float32)
    return chosen, inputs, read_targets(cells, table.target, table.task)


def read_targets(cells: Cells, target: str, task: str | None) -> Targets:
    """Return the targets of a column and, for classification, the class names in order.

    Raises:
        DataError: an empty cell, one that is no number in a regression, one class only, or too many.
    """
    values = ["" if cell is None else str(cell).strip() for cell in cells.column(target)]
    if "" in values:
        raise DataError(
            f"{cells.where(values.index(''))}: the target {target!r} is empty.", remedy="Fill it in or drop the row."
        )
    names: dict[str, int] = {}
    codes = np.array([names.setdefault(value, len(names)) for value in values])
    try:
        return _decided(list(names), codes, target, task)
    except UnusualError:
        return np.array([_number(value, cells, row, target) for row, value in enumerate(values)]), None  # which raises


def _decided(names: list[str], codes: Array, target: str, task: str | None) -> Targets:
    """Return a target of these different cells, (rows,) whose numbers are in `codes`, as classes or numbers.

    Raises:
        UnusualError: it is to be predicted as a number, and a cell is none.
        DataError: one class only, or too many.
    """
    try:
        numbers = np.array([float(name) for name in names])
    except ValueError:
        numbers = None
    few = numbers is None or (_are_whole(numbers) and len(set(numbers.tolist())) <= FEW)
    if (task or ("classification" if few else "regression")) == "regression":
        if numbers is None or not np.isfinite(numbers).all():
            raise UnusualError
        with np.errstate(over="ignore"):
            return numbers.astype(np.float32)[codes], None
    if not 2 <= len(names) <= MAX_CLASSES:
        found = "one class only" if len(names) == 1 else f"{len(names)} classes"
        raise DataError(
            f"The target {target!r} has {found}; 2 to {MAX_CLASSES} classes make sense.",
            remedy='Choose another target, or set data.args.task to "regression".',
        )
    ordered = sorted(names, key=(lambda name: (float(name), name)) if numbers is not None else str)
    labels = {name: label for label, name in enumerate(ordered)}
    return np.array([labels[name] for name in names], dtype=np.int64)[codes], ordered


def _number(cell: Any, table: Cells, row: int, column: str) -> float:
    try:
        value = float(cell)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f"{table.where(row)}, column {column!r}: {str(cell).strip()[:40]!r} is not a finite number.",
            remedy="Encode or fill it in the file, or leave the column out with data.args.features.",
        )
    return value


def by_columns(table: Numbers, path: Path) -> tuple[list[str], Array, Targets] | None:
    """Return the features' names, inputs and targets of a table; None where it has to be read cell by cell."""
    import pyarrow as pa

    try:
        rows = table.batches(path)
        chosen = [name for name in rows.header if name != table.target] if table.features is None else table.features
        named, once = {table.target, *chosen}, set(rows.header)
        plain = chosen and len(named) == len(chosen) + 1 and len(once) == len(rows.header) and named <= once
        return _read(rows, table, chosen) if plain else None
    except (UnusualError, OSError, ValueError, KeyError, TypeError, csv.Error, pa.ArrowException):
        return None
    finally:
        pa.default_memory_pool().release_unused()


def _read(rows: Batches, table: Numbers, chosen: list[str]) -> tuple[list[str], Array, Targets]:
    inputs, targets = _Inputs(len(chosen)), _Targets(rows.rounds)
    names = [table.target, *chosen]
    for first in range(0, len(names), rows.columns_at_once):
        row = 0
        for batch in rows.read(names[first : first + rows.columns_at_once]):
            inputs.make_room(row + batch.num_rows, grows=first == 0)
            for place, column in enumerate(batch.columns, start=first):
                if place == 0:
                    targets.add(column)
                else:
                    inputs.put(row, place - 1, column)
            row += batch.num_rows
    if not inputs.count:
        raise UnusualError
    return chosen, inputs.whole(), targets.whole(table)


class _Inputs:
    """Rows of float32 that grow as they are read, in one piece of memory."""

    def __init__(self, width: int) -> None:
        self.rows = np.empty((0, width), dtype=np.float32)
        self.count = 0

    def make_room(self, count: int, *, grows: bool) -> None:
        if not grows and count > self.count:
            raise UnusualError
        if count > len(self.rows):  # the memory is moved by its addresses; a sixteenth more is all that it takes
            self.rows.resize((count + count // 16, self.rows.shape[1]), refcheck=False)
        self.count = max(count, self.count)

    def put(self, row: int, place: int, column: pa.Array) -> None:
        with np.errstate(over="ignore"):  # infinite then, which the check of the samples reports
            self.rows[row : row + len(column), place] = _numbers(column)

    def whole(self) -> Array:
        self.rows.resize((self.count, self.rows.shape[1]), refcheck=False)
        return self.rows


@dataclass
class _Targets:
    """A target read as classes as long as few are met, and as numbers from then on."""

    rounds: bool
    names: dict[str, int] | None = field(default_factory=dict)
    """Number of each different cell; None: too many."""
    parts: list[Array] = field(default_factory=list)
    """Numbers of cells, and once these are too many, the cells' text."""

    def add(self, column: pa.Array) -> None:
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        floating = pa.types.is_floating(column.type)
        if column.null_count or (floating and _has_negative_zero(column.to_numpy())):
            raise UnusualError
        if self.names is not None and ((floating and self.rounds) or not self._add_names(self.names, column)):
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

    def whole(self, table: Numbers) -> Targets:
        """Return the targets and the names of classes, as `read_targets` does cell by cell."""
        found = np.concatenate(self.parts)
        if self.names is not None:
            if "" in self.names:
                raise UnusualError
            return _decided(list(self.names), found, table.target, table.task)
        if table.task == "classification" or (_are_whole(found) and len(np.unique(found)) <= FEW):
            raise UnusualError
        with np.errstate(over="ignore"):
            return found.astype(np.float32), None


def _parsed(column: pa.Array) -> Array:
    """Return the finite numbers, (rows,) of float64, of a column, or of its texts."""
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
    """Return a column's finite numbers, as wide as Python's; integers become floating first, as by float().

    Raises:
        UnusualError: anything else is in it.
    """
    from pyarrow import types

    kind = column.type
    plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if not plain or column.null_count:
        raise UnusualError
    values: Array = column.to_numpy(zero_copy_only=False)
    values = values if values.dtype.kind == "f" else values.astype(np.float64)
    if not np.isfinite(values).all():
        raise UnusualError
    return values
