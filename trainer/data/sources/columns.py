"""Tables of numbers read as whole columns, some rows at a time: two million rows take their own memory and little more.

Only what is plain is read so. Where a cell is no finite number, or a file is unusual in any way, None sends the caller
to read cell by cell, which decides and says where it stands; so a cell means the same either way.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwright.trainer.data.sources.tables import Batches, Numbers, UnusualError

if TYPE_CHECKING:
    import pyarrow as pa

FEW = 20
"""Different whole numbers up to which a target is taken for classes."""
MAX_CLASSES = 1000

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Columns:
    """A table of numbers."""

    features: list[str]
    inputs: Array
    """(rows, features) of float32."""
    targets: Array
    """(rows,): of int64 for classes, of float32 for numbers."""
    class_names: list[str] | None


def read_columns(table: Numbers, path: Path) -> Columns | None:
    """Read a table of numbers, or return None where it has to be read cell by cell.

    Args:
        table: which columns are read, and how the file is.
        path: the file, or the folder of an arrow data set.
    """
    import pyarrow as pa

    target = table.target
    try:
        rows = table.batches(path)
        chosen = [name for name in rows.header if name != target] if table.features is None else table.features
        if len(set(rows.header)) < len(rows.header) or not {target, *chosen} <= set(rows.header):
            return None
        if not chosen or len(set(chosen)) < len(chosen):
            return None
        return _read(rows, target, chosen, table.task)
    except (UnusualError, OSError, ValueError, KeyError, TypeError, csv.Error, pa.ArrowException):
        return None
    finally:
        pa.default_memory_pool().release_unused()


def _read(table: Batches, target: str, chosen: list[str], task: str | None) -> Columns:
    inputs, targets = _Inputs(len(chosen)), _Targets(table.rounds)
    names = [target, *chosen]
    for first in range(0, len(names), table.columns_at_once):
        row = 0
        for batch in table.read(names[first : first + table.columns_at_once]):
            inputs.make_room(row + batch.num_rows, grows=first == 0)
            for place, column in enumerate(batch.columns, start=first):
                if place == 0:
                    targets.add(column)
                else:
                    inputs.put(row, place - 1, column)
            row += batch.num_rows
    if not inputs.count:
        raise UnusualError
    with np.errstate(over="ignore"):
        return Columns(chosen, inputs.whole(), *targets.whole(task))


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
        with np.errstate(over="ignore"):  # infinite then, which whoever checks the samples says
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
    """Numbers of cells, and once these are too many, what the cells say."""

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

    def whole(self, task: str | None) -> tuple[Array, list[str] | None]:
        """Return the targets and the names of classes, as `tabular.read_targets` does cell by cell."""
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
                raise UnusualError
            return numbers.astype(np.float32)[codes], None
        if "" in self.names or len(cells) < 2:
            raise UnusualError
        ordered = sorted(cells, key=(lambda name: (float(name), name)) if numbers is not None else str)
        labels = {name: label for label, name in enumerate(ordered)}
        return np.array([labels[cell] for cell in cells], dtype=np.int64)[codes], ordered

    def _many(self, task: str | None) -> tuple[Array, list[str] | None]:
        numbers = np.concatenate(self.parts)
        if task == "classification" or (_are_whole(numbers) and len(np.unique(numbers)) <= FEW):
            raise UnusualError
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
