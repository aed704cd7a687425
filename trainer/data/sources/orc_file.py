"""Tables in ORC files, the columnar format of Hive: https://orc.apache.org/specification/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.data.sources.cells import Batches
from trainwright.trainer.data.sources.tables import Numbers, Table, Texts


class _File(Table):
    """An ORC file."""

    name: ClassVar[str] = "orc"
    endings: ClassVar[tuple[str, ...]] = ("orc",)

    def batches(self, path: Path) -> Batches:
        """Return the rows stripe by stripe."""
        from pyarrow import orc

        file = orc.ORCFile(path)

        def read(names: list[str]) -> Iterator[Any]:
            return (file.read_stripe(stripe, columns=names).select(names) for stripe in range(file.nstripes))

        return Batches(list(file.schema.names), read, columns_at_once=4)


class OrcTexts(_File, Texts):
    """An ORC file, one column of which holds texts."""


class Orc(_File, Numbers):
    """A table of numbers in an ORC file."""

    texts = OrcTexts
