"""Tables in Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.data.sources.cells import Batches
from trainwright.trainer.data.sources.tables import Numbers, Table, Texts

ROWS_AT_ONCE = 1 << 14


class _File(Table):
    """A Parquet file."""

    name: ClassVar[str] = "parquet"
    endings: ClassVar[tuple[str, ...]] = ("parquet",)

    def batches(self, path: Path) -> Batches:
        """Return the rows some at a time; its reader keeps much for each column, so few are read together."""
        from pyarrow import parquet

        file = parquet.ParquetFile(path, buffer_size=1 << 16)

        def read(names: list[str]) -> Iterator[Any]:
            return (batch.select(names) for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=names))

        return Batches(list(file.schema_arrow.names), read, columns_at_once=4)


class ParquetTexts(_File, Texts):
    """A Parquet file, one column of which holds texts."""


class Parquet(_File, Numbers):
    """A table of numbers in a Parquet file."""

    texts = ParquetTexts
