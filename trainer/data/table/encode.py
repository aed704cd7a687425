"""Cells of a table as a matrix of numbers. Each distinct cell is read once, by the code that serving reads it with.

Plain numbers are taken as the reader parsed them, whole columns at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.table import transform
from trainwright.trainer.data.table.schema import Column, TableSchema

if TYPE_CHECKING:
    import pyarrow as pa

NAMED = 5
"""Rows that an error names."""


class CellError(Exception):
    """Cells of a column are of another kind than the column; `rows` of the batch hold them."""

    def __init__(self, column: Column, rows: list[int], cell: Any, problem: str, count: int) -> None:
        super().__init__(problem)
        self.column, self.rows, self.cell, self.problem, self.count = column, rows, cell, problem, count


@dataclass
class Encoder:
    """Encoder of batches of rows, in order; it numbers categories by their first appearance."""

    schema: TableSchema
    has_missing: bool = field(default=False, init=False)

    def put(self, into: Array, place: int, column: Column, cells: pa.Array) -> None:
        """Write a column's cells, (rows,), into the matrix `into` (rows, inputs), from input `place` on.

        Raises:
            CellError: a cell of another kind.
        """
        numbers = self._plain(column, cells)
        if numbers is None:
            found = self._by_distinct(column, cells)
            self.has_missing = self.has_missing or bool(np.isnan(found[:, 0]).any())
            into[:, place : place + column.width] = found
        else:
            into[:, place] = numbers

    def _plain(self, column: Column, cells: pa.Array) -> Array | None:
        from pyarrow import types

        kind = cells.type
        if column.kind != "number" or not (types.is_integer(kind) or types.is_floating(kind)):
            return None
        values = values_of(cells)
        values = values if values.dtype.kind == "f" else values.astype(np.float64)
        with np.errstate(over="ignore"):
            numbers = values.astype(np.float32, copy=False)
        if np.isfinite(numbers).all():
            return numbers
        infinite = np.flatnonzero(np.isinf(numbers))
        if len(infinite):
            cell = values[infinite[0]]
            raise CellError(column, infinite[:NAMED].tolist(), cell, "no finite number of 32 bits", len(infinite))
        self.has_missing = True
        return numbers

    def _by_distinct(self, column: Column, cells: pa.Array) -> Array:
        import pyarrow as pa

        if not pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_encode()
        distinct = cells.dictionary.to_pylist()
        codes = numbers_of(cells, len(distinct))
        if column.kind == "category":
            self._number(column, distinct)
        plan = column.plan()
        table = np.full((len(distinct) + 1, column.width), np.nan, dtype=np.float32)
        bad: dict[int, str] = {}
        for code, cell in enumerate(distinct):
            try:
                table[code] = transform.encode(cell, plan)
            except (ValueError, OverflowError) as error:
                bad[code] = str(error)
        if bad:
            rows = np.flatnonzero(np.isin(codes, list(bad)))
            first = int(codes[rows[0]])
            raise CellError(column, rows[:NAMED].tolist(), distinct[first], bad[first], len(rows))
        found: Array = table[codes]
        return found

    @staticmethod
    def _number(column: Column, distinct: list[Any]) -> None:
        for cell in distinct:
            text = transform.text_of(cell)
            if text is not None:
                column.values.setdefault(text, len(column.values))


def numbers_of(cells: pa.DictionaryArray, missing: int) -> Array:
    """Return each row's number among the different cells, (rows,), and `missing` where it has none."""
    numbers = cells.indices
    return values_of(numbers.fill_null(missing) if numbers.null_count else numbers)


def values_of(numbers: pa.Array) -> Array:
    """Return a column's numbers, (rows,), not to be written to; a null is NaN.

    Through DLPack where there is none: Arrow's own way imports pandas, a fifth of a second of every run of a table.
    """
    if not numbers.null_count:
        return np.from_dlpack(numbers)
    found: Array = numbers.to_numpy(zero_copy_only=False)
    return found
