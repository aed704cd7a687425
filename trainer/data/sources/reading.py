"""Reading of a table's files as one: columns, some rows at a time, and the places of cells for messages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sources.cells import Cells, Wanted, no_rows
from trainwright.trainer.data.sources.targets import rows_without
from trainwright.trainer.data.split_methods.given import by_names
from trainwright.trainer.data.table.encode import CellError
from trainwright.trainer.data.table.infer import ambiguous
from trainwright.trainer.data.table.schema import ROWS
from trainwright.trainer.data.table.transform import EITHER

if TYPE_CHECKING:
    import pyarrow as pa

    from trainwright.trainer.data.sources.tables import Table

NAMED = 20
"""Rows left out that are named by their lines."""


@dataclass
class Reading:
    """The files of a table, read as one, without the rows that the configuration leaves out."""

    table: Table
    files: list[Path]
    header: list[str] = field(init=False)
    texts: set[str] = field(default_factory=set)
    """Columns whose cells the reader could not parse as numbers after all."""
    decimal: str = "."
    starts: list[int] = field(default_factory=list)
    """First row of each file, once it is read."""
    dropped: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Rows without a target that are left out, (dropped,), counted over all files."""

    def __post_init__(self) -> None:
        headers = [self.table.header_of(path) for path in self.files]
        self.header = headers[0]
        for path, header in zip(self.files, headers, strict=True):
            if header != self.header:
                other = sorted(set(header) ^ set(self.header)) or header
                raise DataError(
                    f"{path.name} has other columns than {self.files[0].name}: {', '.join(other[:10])}.",
                    remedy="Give all files the same columns in the same order, or name some of them in data.args.path.",
                )
        targets = [name for name in self.table.targets if name in self.header]
        if self.table.drop_without_target and targets:
            found = [rows_without(batch.column(0) for batch in self.batches([name])) for name in targets]
            self.dropped, count = np.unique(np.concatenate([rows for rows, _ in found])), found[0][1]
            if 0 < count == len(self.dropped):
                raise DataError(
                    f"{self.files[0].name}: no row has a target {' and a target '.join(map(repr, targets))}.",
                    remedy="Name another column with data.args.target.",
                )

    def batches(
        self, names: list[str], numbers: Sequence[str] = (), whole: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, with the columns of these names."""
        wanted = Wanted(names, frozenset(numbers) - self.texts, frozenset(whole), self.decimal)
        row, self.starts = 0, []
        for path in self.files:
            self.starts.append(row)
            for batch in self.table.read(path, wanted):
                kept = self._kept(row, batch)
                if kept.num_rows:
                    yield kept
                row += batch.num_rows

    def _kept(self, row: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that are not left out; its first is `row`."""
        import pyarrow as pa

        first, last = np.searchsorted(self.dropped, [row, row + batch.num_rows])
        if first == last:
            return batch
        mask = np.ones(batch.num_rows, dtype=bool)
        mask[self.dropped[first:last] - row] = False
        return batch.filter(pa.array(mask))

    def head(self, names: list[str]) -> dict[str, list[Any]]:
        """Return the first cells of columns, at most ROWS each."""
        found: dict[str, list[Any]] = {name: [] for name in names}
        for batch in self.batches(names):
            for name, column in zip(names, batch.columns, strict=True):
                found[name] += column.slice(0, ROWS - len(found[name])).to_pylist()
            if len(found[names[0]]) >= ROWS:
                break
        return found

    @property
    def sources(self) -> list[Path]:
        """The files behind the table."""
        return [file for path in self.files for file in self.table.files_in(path)]

    @property
    def skipped(self) -> list[str]:
        """Places of the rows that are left out; the first by their lines."""
        return [
            self._place(row) if place < NAMED else f"row {row + 1}" for place, row in enumerate(self.dropped.tolist())
        ]

    def splits(self, code_root: Path) -> Array:
        """Return the split of each row that the name of its file says, (rows,). Raises DataError, as `by_names`."""
        each = (self.table.read(path, Wanted(self.header[:1])) for path in self.files)
        counts = [sum(batch.num_rows for batch in batches) for batches in each]
        return np.delete(by_names(self.table.file_names(code_root), counts), self.dropped)

    def values(self, name: str) -> Array:
        """Return the cells of one column, (rows,)."""
        return np.concatenate([_values(batch.column(0)) for batch in self.batches([name])])

    def cells(self) -> Cells:
        """Return all cells.

        Raises:
            DataError: unreadable or cut short, or empty.
        """
        rows = [
            row
            for batch in self.batches(self.header)
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]
        if not rows:
            raise no_rows(self.files[0])
        return Cells(self.files[0], self.header, rows, self.where)

    def where(self, row: int) -> str:
        """Return the place of a row among those that are not left out: `churn.csv line 3`."""
        before = np.searchsorted(self.dropped - np.arange(len(self.dropped)), row, side="right")
        return self._place(row + int(before))

    def _place(self, row: int) -> str:
        file = bisect_right(self.starts, row) - 1
        return self.table.where(self.files[file], row - self.starts[file])


def _values(cells: pa.Array) -> Array:
    """Return cells as an array, (rows,); of texts each different one is read once."""
    import pyarrow as pa

    if cells.null_count or not pa.types.is_string(cells.type):
        return np.array(cells.to_pylist())
    encoded = cells.dictionary_encode()
    found: Array = np.array(encoded.dictionary.to_pylist(), dtype=str)[encoded.indices.to_numpy(zero_copy_only=False)]
    return found


def named_cell(error: CellError, reading: Reading, first: int) -> DataError:
    """Return the error for cells of another kind than their column, in a batch whose first row is `first`."""
    places = [reading.where(first + row) for row in error.rows]
    name, kind = error.column.name, error.column.kind
    if error.problem == EITHER:
        return ambiguous(name, str(error.cell), f"{places[0]}, column")
    other = "category" if kind != "category" else "text"
    more = f" ({error.count} in these rows: {', '.join(places)})" if error.count > 1 else ""
    return DataError(
        f"{places[0]}, column {name!r}: {str(error.cell).strip()[:40]!r} is {error.problem}{more}. The column is read "
        f"as {kind}: {error.column.reason}.",
        remedy=f"Correct the file (an empty cell is a missing value), or say what the column is: data.args.columns "
        f'{{"{name}": "{other}"}}, or "ignore" to leave it out.',
        details={"rows": places, "column": name, "changes": {"data.args.columns": {name: other}}},
    )
