"""A table's rows as polars takes them, from the very batches that training reads: validation sees what is trained on.

A text file's columns are what the table's inference says (table/infer.py), where every cell fits: numbers, truths,
dates; else text. Rows are in memory; of large files they are written into the data cache once, and scanned there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import parquet

from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data import cache
from trainwright.trainer.data.sources.cells import OddNumbersError
from trainwright.trainer.data.sources.reading import Reading
from trainwright.trainer.data.table import transform
from trainwright.trainer.data.table.infer import decimal_of, infer
from trainwright.trainer.data.table.schema import Column

MAX_IN_MEMORY_BYTES = 1 << 28
"""Of files whose rows are held in memory."""
MAX_PASSES = 4
"""Through a file whose columns turn out to hold other cells than in the first rows; then all is read as text."""
VERSION = 2
ROWS = "rows.parquet"
TRUTHS = {"true", "false"}


def frame_of(reading: Reading) -> pl.LazyFrame:
    """Return the rows of a table, without those that are left out. Raises as `Reading.batches`."""
    kinds = _first_kinds(reading)
    written = _written_ones(reading, kinds) if reading.table.is_text else {}
    for name in reading.table.targets if reading.table.is_text and reading.table.labels else ():
        if name in kinds:
            kinds[name] = pa.string()  # labels are of cells as they are
            written.pop(name, None)
    if sum(path.stat().st_size for path in reading.sources) > MAX_IN_MEMORY_BYTES:
        return pl.scan_parquet(_cached(reading, kinds, written), glob=False)
    schema, batches = _read(reading, kinds, written, list)
    found = pl.from_arrow(pa.Table.from_batches(batches, schema))
    assert isinstance(found, pl.DataFrame)  # noqa: S101 - of a table
    return found.lazy()


def _first_kinds(reading: Reading) -> dict[str, pa.DataType]:
    """Return Arrow's type of each column by the first rows. Raises DataError where there are none."""
    first = next(reading.batches(reading.header), None)
    if first is None:
        raise reading.table.without_rows(reading.files[0])
    if not reading.table.is_text:
        return dict(zip(first.schema.names, first.schema.types, strict=True))
    kinds = {}
    for name, cells in zip(first.schema.names, first.columns, strict=True):
        filled = pa.array([cell for cell in cells.to_pylist() if transform.text_of(cell) is not None], pa.string())
        fitting = (kind for kind in (pa.int64(), pa.float64()) if len(filled) and _casts(filled, kind))
        kinds[name] = next(fitting, pa.string())
    return kinds


def _written_ones(reading: Reading, kinds: dict[str, pa.DataType]) -> dict[str, Column]:
    """Return the columns of text that are numbers, truths or dates; their types go into `kinds`."""
    texts = [name for name, kind in kinds.items() if pa.types.is_string(kind)]
    if not texts:
        return {}
    table, heads = reading.table, reading.head(list(kinds))
    mark = decimal_of(heads.values(), getattr(table, "decimal", None), table.reading(reading.files[0]).get("delimiter"))
    day_first = getattr(table, "day_first", None)
    found: dict[str, Column] = {}
    for name in texts:
        with suppress(DataError):  # what nothing settles stays text here, and is asked by who trains on it
            found[name] = infer(name, heads[name], named=True, decimal=mark, day_first=day_first)
    types = {"number": pa.float64(), "date": pa.date32(), "boolean": pa.bool_()}
    for name, column in list(found.items()):
        is_truth = {str(cell).strip().lower() for cell in heads[name]} <= TRUTHS | transform.MISSING
        if column.kind not in types or (column.kind == "boolean" and not is_truth):
            del found[name]
        else:
            kinds[name] = pa.timestamp("us") if column.width == 2 else types[column.kind]
    return found


def _casts(cells: pa.Array, kind: pa.DataType) -> bool:
    try:
        cells.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _read(
    reading: Reading, kinds: dict[str, pa.DataType], written: dict[str, Column], use: Any
) -> tuple[pa.Schema, Any]:
    """Return the schema, and what `use` makes of the batches; once more where a column turns out to hold other cells.

    Args:
        kinds: widened so that all cells fit.
        written: columns of text by what they hold; those of which a cell is another stay text.
    """
    for passes in range(1 << 16):
        schema = pa.schema(list(kinds.items()))
        try:
            return schema, use(_batches(reading, schema, written))
        except OddNumbersError as error:
            name = str(error)
            if reading.table.is_text and passes >= MAX_PASSES:
                kinds |= dict.fromkeys(kinds, pa.string())
                written.clear()
            is_whole = pa.types.is_integer(kinds[name])
            kinds[name] = pa.float64() if is_whole else pa.string()
            written.pop(name, None)
    raise AssertionError("each pass widens a column")


def _batches(reading: Reading, schema: pa.Schema, written: dict[str, Column]) -> Iterator[pa.RecordBatch]:
    """Yield the rows with these types. Raises OddNumbersError for a column whose cells are of another."""
    whole = [one.name for one in schema if pa.types.is_integer(one.type)]
    numbers = [one.name for one in schema if pa.types.is_floating(one.type) and one.name not in written]
    for batch in reading.batches(reading.header, numbers, whole):
        is_plain = batch.schema.equals(schema) and not reading.table.is_text
        yield batch if is_plain else _cast(batch, schema, written, reading.table.targets)


def _cast(batch: pa.RecordBatch, schema: pa.Schema, written: dict[str, Column], targets: list[str]) -> pa.RecordBatch:
    columns = []
    for field, cells in zip(schema, batch.columns, strict=True):
        if pa.types.is_string(cells.type):
            is_target = field.name in targets
            columns.append(_understood(cells, field, written.get(field.name), is_target=is_target))
            continue
        try:
            columns.append(cells.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if not pa.types.is_string(field.type):
                raise OddNumbersError(field.name) from error
            columns.append(pa.array(map(transform.text_of, cells.to_pylist()), pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _understood(cells: pa.Array, field: pa.Field, column: Column | None, *, is_target: bool) -> pa.Array:
    """Return cells of text with the values that they say. Raises OddNumbersError where one is of another kind."""
    if is_target and column is None:  # a class may be called NA
        return cells

    encoded = cells.dictionary_encode()
    try:
        values = [_value(cell, column) for cell in encoded.dictionary.to_pylist()]
    except (ValueError, OverflowError) as error:
        raise OddNumbersError(field.name) from error
    return pa.array(values, field.type).take(encoded.indices)


def _value(cell: str, column: Column | None) -> Any:
    text = transform.text_of(cell)
    if text is None or column is None:
        return None if text is None else cell
    first, *second = transform.encode(text, column.plan())
    if column.kind == "date":
        day = date.fromordinal(int(first) + transform.EPOCH)
        return datetime.combine(day, time.min) + timedelta(seconds=second[0]) if second else day
    return bool(first) if column.kind == "boolean" else first


def _cached(reading: Reading, kinds: dict[str, pa.DataType], written: dict[str, Column]) -> Path:
    """Return a Parquet file of the rows, in the data cache."""

    def write(folder: Path) -> None:
        def into(batches: Iterator[pa.RecordBatch]) -> None:
            writer = None
            for batch in batches:
                writer = writer or parquet.ParquetWriter(folder / ROWS, batch.schema)
                writer.write_batch(batch)
            if writer is not None:
                writer.close()

        _read(reading, kinds, written, into)

    digests = [cache.current().digests.of(path) for path in reading.sources]
    options = reading.table.model_dump(mode="json", exclude={"path"})
    return cache.current().made(digest_json(["scan", VERSION, digests, options]), write) / ROWS
