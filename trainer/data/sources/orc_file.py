"""Tables in ORC files, the columnar format of Hive: https://orc.apache.org/specification/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from trainwright.trainer.data.sources.cells import Wanted, named
from trainwright.trainer.data.sources.tables import Numbers, Table, Texts

if TYPE_CHECKING:
    import pyarrow as pa


class _File(Table):
    """An ORC file."""

    name: ClassVar[str] = "orc"
    endings: ClassVar[tuple[str, ...]] = ("orc",)
    columns_at_once: ClassVar[int] = 4

    def _header(self, path: Path) -> list[str]:
        from pyarrow import orc

        return named(orc.ORCFile(path).schema.names, path)

    def _batches(self, path: Path, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        from pyarrow import orc

        file = orc.ORCFile(path)
        for stripe in range(file.nstripes):
            yield file.read_stripe(stripe, columns=wanted.names).select(wanted.names)


class OrcTexts(_File, Texts):
    """An ORC file, one column of which holds texts."""


class Orc(_File, Numbers):
    """A table in an ORC file."""

    texts: ClassVar[type[Texts]] = OrcTexts
