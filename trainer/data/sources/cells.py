"""Cells and columns of a table, as its reader returns them, unchecked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import DataError, folded, near, near_matches
from trainwright.trainer.base.paths import files_among
from trainwright.trainer.data.table.transform import is_number


class OddNumbersError(Exception):
    """The reader cannot parse cells of this column as numbers: they are to be read as text."""


@dataclass(frozen=True)
class Wanted:
    """Columns to read."""

    names: list[str]
    numbers: frozenset[str] = frozenset()
    """Those of them that hold numbers; a text file's other columns are read as text."""
    whole: frozenset[str] = frozenset()
    """Those of them that hold whole numbers, for a reader who wants them apart."""
    decimal: str = "."
    """Mark of numbers in a text file."""


@dataclass(frozen=True)
class Cells:
    """Rows of cells under a header; every row has a cell for every column."""

    path: Path
    """The first file."""
    header: list[str]
    rows: Sequence[Sequence[Any]]
    where: Callable[[int], str]
    """Returns a row's place: `churn.csv line 3`."""

    def column(self, name: str, key: str | None = None) -> list[Any]:
        """Return the cells of a column, which a key of the configuration names. Raises DataError without such one."""
        if name not in self.header:
            raise no_column(name, self.path, self.header, lambda near: {key: near} if key else {})
        place = self.header.index(name)
        return [row[place] for row in self.rows]


def no_column(name: str, path: Path, header: Sequence[str], changes: Callable[[str], dict[str, Any]]) -> DataError:
    """Return the error for a column that a file lacks.

    Args:
        changes: of the configuration, from the name that is meant instead.
    """
    meant = near(name, header)
    if not meant and 2 * sum(map(is_number, header)) >= len(header):
        shown = ", ".join(header[:6])
        return DataError(
            f"{path.name} has no column {name!r}: its first line ({shown}) looks like a row of data, and the file "
            "seems to have no header.",
            remedy="Say the columns' names, in order, the target too: data.args.names.",
            details={"changes": {"data.args.names": [f"column_{place}" for place in range(1, len(header) + 1)]}},
        )
    found = changes(meant[0]) if meant else {}
    if meant and folded(meant[0]) != folded(name):  # what is predicted is not told by likeness
        found.pop("data.args.target", None)
    listed = header if len(header) <= 20 else [*header[:10], f"… ({len(header) - 20} more)", *header[-10:]]
    return DataError(
        f"{path.name} has no column {name!r}.{near_matches(name, header)}",
        remedy=f"Name one of its columns: {', '.join(listed)}.",
        details={"changes": found} if found else {},
    )


def named(header: Iterable[str], path: Path) -> list[str]:
    """Return the names of columns, those without one by their place. Raises DataError for two of one name."""
    names = [name.strip() or f"column_{place}" for place, name in enumerate(header, start=1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"{path.name} has two columns named {twice[0]!r}.", remedy="Rename one of them in the file's header."
        )
    return names


def no_rows(path: Path) -> DataError:
    """Return the error for a table without rows."""
    return DataError(f"{path.name} has no rows.", remedy="Point data.args.path at a table with data in it.")


def files_of(path: Path) -> list[Path]:
    """Return the files of a source for the evidence: itself, or all in the folder."""
    return [path] if path.is_file() else sorted(files_among(path.rglob("*")))
