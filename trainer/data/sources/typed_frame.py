"""A table's rows as polars takes them, from the very batches that training reads: validation sees what is trained on.

A text file's columns are of one kind throughout: whole numbers, numbers, truths, dates where every cell that is filled
is one, else text. Rows are in memory; of large files they are written into the data cache once, and scanned there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.data import cache
from trainwright.trainer.data.sources.cells import OddNumbersError
from trainwright.trainer.data.table import transform

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from trainwright.trainer.data.sources.reading import Reading

MOST_IN_MEMORY_BYTES = 1 << 28
"""Of files whose rows are held in memory."""
PACKED_TIMES = 8
"""Bytes of text that a byte of a compressed file may hold."""
MOST_PASSES = 4
"""Through a file whose columns turn out to hold other cells than in the first rows; then all is read as text."""
SAMPLE = 200
"""Cells that a kind must fit before the whole column is tried."""
VERSION = 1
ROWS = "rows.parquet"
DATES = {"year-month-day": ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d"), "day.month.year": ("%d.%m.%Y",),
         "day/month/year": ("%d/%m/%Y", "%d-%m-%Y"), "month/day/year": ("%m/%d/%Y", "%m-%d-%Y")}  # fmt: skip
"""As polars writes the forms of `transform.DATES`, in its order."""
TIMES = ("T%H:%M:%S%.f", " %H:%M:%S%.f", "T%H:%M", " %H:%M")


def frame_of(reading: Reading) -> pl.LazyFrame:
    """Return the rows of a table, without those that are left out. Raises as `Reading.batches`."""
    import polars as pl
    import pyarrow as pa

    kinds, is_text = _first_kinds(reading), reading.table.is_text
    if sum(map(_unpacked_bytes, reading.sources)) > MOST_IN_MEMORY_BYTES:
        frame = pl.scan_parquet(_written(reading, kinds), glob=False)
        return _typed(frame) if is_text else frame
    schema, batches = _read(reading, kinds, list)
    found = pl.from_arrow(pa.Table.from_batches(batches, schema))
    assert isinstance(found, pl.DataFrame)  # noqa: S101 - of a table
    return _typed(found.lazy()).collect().lazy() if is_text else found.lazy()


def _unpacked_bytes(path: Path) -> int:
    return path.stat().st_size * (PACKED_TIMES if transform.packed(path) is not None else 1)


def _first_kinds(reading: Reading) -> dict[str, pa.DataType]:
    """Return Arrow's type of each column by the first rows. Raises DataError where there are none."""
    import pyarrow as pa

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


def _casts(cells: pa.Array, kind: pa.DataType) -> bool:
    import pyarrow as pa

    try:
        cells.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _read(reading: Reading, kinds: dict[str, pa.DataType], use: Any) -> tuple[pa.Schema, Any]:
    """Return the schema, and what `use` makes of the batches; once more where a column turns out to hold other cells.

    Args:
        kinds: widened so that all cells fit.
    """
    import pyarrow as pa

    for passes in range(1 << 16):
        schema = pa.schema(list(kinds.items()))
        try:
            return schema, use(_batches(reading, schema))
        except OddNumbersError as error:
            name = str(error)
            if reading.table.is_text and passes >= MOST_PASSES:
                kinds |= dict.fromkeys(kinds, pa.string())
            is_whole = pa.types.is_integer(kinds[name])
            kinds[name] = pa.float64() if is_whole else pa.string()
    raise AssertionError("each pass widens a column")


def _batches(reading: Reading, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows with these types. Raises OddNumbersError for a column whose cells are of another."""
    import pyarrow as pa

    whole = [one.name for one in schema if pa.types.is_integer(one.type)]
    numbers = [one.name for one in schema if pa.types.is_floating(one.type)]
    for batch in reading.batches(reading.header, numbers, whole):
        yield batch if batch.schema.equals(schema) else _cast(batch, schema)


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = []
    for field, cells in zip(schema, batch.columns, strict=True):
        try:
            columns.append(cells.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if not pa.types.is_string(field.type):
                raise OddNumbersError(field.name) from error
            columns.append(pa.array(map(transform.text_of, cells.to_pylist()), pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _written(reading: Reading, kinds: dict[str, pa.DataType]) -> Path:
    """Return a Parquet file of the rows, in the data cache."""
    from pyarrow import parquet

    def write(folder: Path) -> None:
        def into(batches: Iterator[pa.RecordBatch]) -> None:
            writer = None
            for batch in batches:
                writer = writer or parquet.ParquetWriter(folder / ROWS, batch.schema)
                writer.write_batch(batch)
            if writer is not None:
                writer.close()

        _read(reading, kinds, into)

    digests = [cache.current().digests.of(path) for path in reading.sources]
    options = reading.table.model_dump(mode="json", exclude={"path"})
    return cache.current().made(digest_json(["scan", VERSION, digests, options]), write) / ROWS


def _typed(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return rows of text with every column of the first kind that all of its cells are of."""
    import polars as pl

    texts = [name for name, dtype in frame.collect_schema().items() if dtype == pl.String]
    places = {name: place for place, name in enumerate(frame.collect_schema().names())}
    if not texts:
        return frame
    missing = list(transform.MISSING)
    columns = {name: pl.nth(places[name]) for name in texts}
    is_empty = {name: one.str.strip_chars().str.to_lowercase().is_in(missing) for name, one in columns.items()}
    filled = {name: pl.when(~is_empty[name]).then(one).alias(name) for name, one in columns.items()}
    some = frame.select(filled[name].drop_nulls().head(SAMPLE).implode() for name in texts).collect(engine="streaming")
    tried = {
        f"{name}\x1f{number}": (kind.is_null() & filled[name].is_not_null()).any()
        for name in texts
        for number, kind in enumerate(_kinds(filled[name]))
        if _fits(some[name][0], number)
    }
    odd = frame.select(expression.alias(name) for name, expression in tried.items()).collect(engine="streaming")
    chosen = dict(filled)
    for name in texts:
        fitting = (number for number in range(99) if f"{name}\x1f{number}" in tried)
        number = next((one for one in fitting if not odd[f"{name}\x1f{one}"][0]), None)
        if number is not None:
            chosen[name] = _kinds(filled[name])[number].alias(name)
    return frame.with_columns(chosen.values())


def _fits(sample: pl.Series, number: int) -> bool:
    import polars as pl

    found = sample.to_frame("cell").select(_kinds(pl.col("cell"))[number]).to_series()
    return len(sample) > 0 and found.null_count() == 0


def _kinds(cells: pl.Expr) -> list[pl.Expr]:
    """Return cells of text as each kind, null where one is not of it; the narrowest first."""
    import polars as pl

    bare = cells.str.strip_chars()
    truths = {"true": True, "false": False}
    found = [bare.str.to_lowercase().replace_strict(truths, default=None, return_dtype=pl.Boolean)]
    found += [bare.cast(kind, strict=False) for kind in (pl.Int64, pl.Float64)]
    forms = [form for name in transform.DATES for form in DATES.get(name, ())]
    found += [bare.str.to_date(form, strict=False) for form in forms]
    return found + [
        bare.str.to_datetime(f"{form}{time}", strict=False, time_unit="us") for form in forms for time in TIMES
    ]
