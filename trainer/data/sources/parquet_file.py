"""Tables in Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from trainwright.trainer.data.sources.cells import Wanted, named
from trainwright.trainer.data.sources.tables import Numbers, Table, Texts

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from trainwright.trainer.data.sources.reading import Reading

ROWS_AT_ONCE = 1 << 14


def batches(path: Path, names: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows in order, with the columns of these names, or all.

    Raises:
        ValueError: fewer rows are there than the file's end says. Other errors are the library's.
    """
    from pyarrow import parquet, types

    file = parquet.ParquetFile(path, buffer_size=1 << 16, pre_buffer=False)  # which would keep all that was read
    count = 0
    for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=names):
        count += batch.num_rows
        for column in batch.columns:
            if types.is_dictionary(column.type):  # of a damaged file, its numbers lead outside
                column.validate(full=True)
        yield batch
    about = file.metadata
    promised = max(about.num_rows, sum(about.row_group(group).num_rows for group in range(about.num_row_groups)))
    if promised != count:
        raise ValueError(f"its metadata promise {promised:,} rows, and {count:,} are there")


class _File(Table):
    """A Parquet file."""

    name: ClassVar[str] = "parquet"
    endings: ClassVar[tuple[str, ...]] = ("parquet",)
    columns_at_once: ClassVar[int] = 4

    def _header(self, path: Path) -> list[str]:
        return named(_names(path), path)

    def _batches(self, path: Path, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        return (batch.select(wanted.names) for batch in batches(path, wanted.names))

    def _scanned(self, reading: Reading) -> pl.LazyFrame:
        """Return the rows, which stay in the files until columns of them are asked for."""
        import polars as pl

        named = (
            pl.scan_parquet(path, glob=False).rename(dict(zip(_names(path), reading.header, strict=True)))
            for path in reading.files
        )
        frame = pl.concat(list(named), how="vertical_relaxed")
        return frame.filter(~pl.int_range(pl.len()).is_in(reading.dropped.tolist())) if len(reading.dropped) else frame


def _names(path: Path) -> list[str]:
    from pyarrow import parquet

    return list(parquet.read_schema(path).names)


class ParquetTexts(_File, Texts):
    """A Parquet file, one column of which holds texts."""


class Parquet(_File, Numbers):
    """A table in a Parquet file."""

    texts: ClassVar[type[Texts]] = ParquetTexts
