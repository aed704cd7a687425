"""Matrix of a table: its encoded cells, read once; in memory, or written into the data cache where they are many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data import cache, mapped
from trainwright.trainer.data.sources.cells import OddNumbersError, no_rows
from trainwright.trainer.data.sources.reading import Reading, named_cell
from trainwright.trainer.data.sources.targets import TargetColumn, side_by_side
from trainwright.trainer.data.table.encode import CellError, Encoder
from trainwright.trainer.data.table.schema import TableSchema
from trainwright.trainer.data.tensors import TensorSamples

SURELY_LARGE = 4
"""Times mapped.MAPPED_FROM_BYTES: files of so many bytes are not tried in memory first."""
RELEASED_EVERY = 64
"""Batches that are written, before memory that the reader has freed goes back to the system."""
VERSION = 3
"""Of the encoding: entries of another version are not read."""


@dataclass(frozen=True)
class Matrix:
    """Encoded rows with their targets."""

    samples: TensorSamples
    classes: list[str] | None
    has_missing: bool


class _TooLargeError(Exception):
    """The rows take more memory than rows in memory may."""


def matrix_of(reading: Reading, schema: TableSchema) -> Matrix:
    """Return a table's rows: inputs (rows, inputs) of float32, and targets (rows,), or of several (rows, targets).

    The schema learns its categories.

    Raises:
        DataError: a cell of another kind, an unusable target, no rows; it names row and column.
    """
    if sum(path.stat().st_size for path in reading.sources) < SURELY_LARGE * mapped.MAPPED_FROM_BYTES:
        try:
            inputs, targets, encoder = _read(reading, schema, _Memory(schema.width))
            labels, classes = side_by_side(targets, reading.where)
            samples = TensorSamples(torch.from_numpy(inputs.whole()), torch.from_numpy(labels))
            return Matrix(samples, classes, encoder.has_missing)
        except _TooLargeError:
            pass
    return _mapped(reading, schema)


def _mapped(reading: Reading, schema: TableSchema) -> Matrix:
    def write(rows: mapped.Rows) -> dict[str, Any]:
        _, targets, encoder = _read(reading, schema, _Files(schema.width, rows))
        labels, classes = side_by_side(targets, reading.where)
        rows.add(targets=labels)
        values = {column.name: column.values for column in (*schema.target_columns, *schema.features)}
        return {"classes": classes, "has_missing": encoder.has_missing, "values": values}

    digests = [cache.current().digests.of(path) for path in reading.sources]
    options = reading.table.model_dump(mode="json", exclude={"path"})
    columns = [asdict(one) for one in (*schema.columns, *schema.target_columns)]
    found = mapped.mapped([VERSION, digests, options, asdict(reading.table.asked), columns], write)
    for column in (*schema.target_columns, *schema.features):
        column.values = found.about["values"][column.name]
    inputs, labels = (found.arrays[name] for name in ("inputs", "targets"))
    is_large = inputs.numel() * inputs.element_size() >= mapped.MAPPED_FROM_BYTES
    tensors = [inputs, labels] if is_large else [inputs.clone(), labels.clone()]
    samples = TensorSamples(*tensors, is_mapped=is_large)
    return Matrix(samples, found.about["classes"], found.about["has_missing"])


def _read(reading: Reading, schema: TableSchema, into: _Memory | _Files) -> tuple[Any, list[TargetColumn], Encoder]:
    """Read all rows; once more where a column's numbers turn out to be written oddly."""
    import pyarrow as pa

    while True:
        encoder, targets = Encoder(schema), [TargetColumn(one, reading.table.asked) for one in schema.target_columns]
        try:
            for batches in _passes(reading, schema, encoder, targets, into):
                into.count = 0
                for batch in batches:
                    into.count += batch
            if not into.count:
                raise no_rows(reading.files[0])
            return into, targets, encoder
        except OddNumbersError as error:
            reading.texts.add(str(error))
            into.clear()
        finally:
            pa.default_memory_pool().release_unused()


def _passes(
    reading: Reading, schema: TableSchema, encoder: Encoder, targets: list[TargetColumn], into: _Memory | _Files
) -> Iterator[Iterator[int]]:
    """Yield, for each group of columns that are read together, the rows of each batch once it is encoded."""
    columns = {column.name: column for column in schema.features}
    names = list(dict.fromkeys([*schema.targets, *columns]))
    step = reading.table.columns_at_once if into.takes_columns else len(names)
    for first in range(0, len(names), step):
        yield _encoded(reading, encoder, targets, into, names[first : first + step])


def _encoded(
    reading: Reading, encoder: Encoder, targets: list[TargetColumn], into: _Memory | _Files, names: list[str]
) -> Iterator[int]:
    """Encode some columns of every batch; yield its rows."""
    columns, predicted = encoder.schema.features, {one.column.name: one for one in targets}
    starts = np.cumsum([0, *(column.width for column in columns)]).tolist()
    places = {column.name: (start, column) for start, column in zip(starts, columns, strict=False)}
    plain = [column.name for column in columns if column.takes_numbers and column.name in names]
    whole = [name for name in plain if places[name][1].decimal is None and name not in reading.texts]
    for batch in reading.batches(names, plain, whole):
        block = into.block(batch.num_rows)
        try:
            for name, cells in zip(names, batch.columns, strict=True):
                if name in predicted:
                    predicted[name].add(cells)
                if name in places:
                    encoder.put(block, *places[name], cells)
        except CellError as error:
            raise named_cell(error, reading, into.count) from error
        into.done(block)
        yield batch.num_rows


class _Memory:
    """Rows of float32 that grow as they are read, in one piece of memory."""

    takes_columns = True
    """Whether columns may be read in several passes."""

    def __init__(self, width: int) -> None:
        self.rows = np.empty((0, width), dtype=np.float32)
        self.count = 0

    def block(self, size: int) -> Array:
        """Return room for the next rows, (rows, width)."""
        end = self.count + size
        if end * self.rows.shape[1] * self.rows.itemsize >= mapped.MAPPED_FROM_BYTES:
            raise _TooLargeError
        if end > len(self.rows):  # the memory is moved by its addresses; a sixteenth more is all that it takes
            self.rows.resize((end + end // 16, self.rows.shape[1]), refcheck=False)
        return self.rows[self.count : end]

    def done(self, block: Array) -> None:
        """Take note that rows are encoded."""

    def clear(self) -> None:
        """Begin anew."""

    def whole(self) -> Array:
        """Return all rows."""
        self.rows.resize((self.count, self.rows.shape[1]), refcheck=False)
        return self.rows


class _Files:
    """Rows of float32 that go into files as they are read."""

    takes_columns = False

    def __init__(self, width: int, rows: mapped.Rows) -> None:
        self.width, self.rows, self.count, self.blocks = width, rows, 0, 0

    def block(self, size: int) -> Array:
        """Return room for the next rows, (rows, width)."""
        return np.empty((size, self.width), dtype=np.float32)

    def done(self, block: Array) -> None:
        """Write the rows."""
        import pyarrow as pa

        self.rows.add(inputs=block)
        self.blocks += 1
        if self.blocks % RELEASED_EVERY == 0:  # freed memory would stay with the process, a quarter of the rows' bytes
            pa.default_memory_pool().release_unused()

    def clear(self) -> None:
        """Begin anew."""
        self.rows.clear()
