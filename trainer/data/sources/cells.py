"""Cells and columns of a table, as its reader returns them, unchecked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.errors import DataError, near_matches
from trainwright.trainer.base.paths import files_among

if TYPE_CHECKING:
    import pyarrow as pa


class UnusualError(Exception):
    """The table is none that can be read as whole columns: reading its cells decides."""


@dataclass(frozen=True)
class Batches:
    """A table of which a reader hands over some rows at a time."""

    header: list[str]
    read: Callable[[list[str]], Iterator[pa.RecordBatch]]
    """Yields the rows in order, with the columns of these names."""
    columns_at_once: int = 1 << 30
    """Columns that are best read together, where a reader keeps much for each."""
    rounds: bool = False
    """Whether floating numbers may have been written as whole ones, so that they cannot name classes."""


@dataclass(frozen=True)
class Cells:
    """Rows of cells under a header; every row has a cell for every column.

    Raises:
        DataError: two columns of one name.
    """

    path: Path
    header: list[str]
    rows: Sequence[Sequence[Any]]
    places: Sequence[int]
    """Number of each row as a reader of the file would count it."""
    unit: str
    """Unit of the places: line or row."""

    def __post_init__(self) -> None:
        twice = sorted({name for name in self.header if self.header.count(name) > 1})
        if twice:
            raise DataError(
                f"{self.path.name} has two columns named {twice[0]!r}.",
                remedy="Rename one of them in the file's header.",
            )

    def where(self, row: int) -> str:
        """Return a row's place: `churn.csv line 3`."""
        return f"{self.path.name} {self.unit} {self.places[row]}"

    def column(self, name: str) -> list[Any]:
        """Return a column's cells. Raises DataError when there is no such column."""
        if name not in self.header:
            raise DataError(
                f"{self.path.name} has no column {name!r}.{near_matches(name, self.header)}",
                remedy=f"Name one of its columns: {', '.join(self.header[:20])}.",
            )
        place = self.header.index(name)
        return [row[place] for row in self.rows]


def files_of(path: Path) -> list[Path]:
    """Return the files of a source for the evidence: itself, or those in the folder."""
    return [path] if path.is_file() else sorted(files_among(path.iterdir()))
