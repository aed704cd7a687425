"""Tables in files: the options of every kind of table, and what its reader hands over.

A kind of table reads its cells one by one, and whole columns some rows at a time. What cells hold is judged by who
uses them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.errors import DataError, near_matches
from trainwright.trainer.base.paths import confine, files_among
from trainwright.trainer.data.sources.source import PATH, Name, Source, unreadable
from trainwright.trainer.data.sources.text_files import Modelling, Tokens

if TYPE_CHECKING:
    import pyarrow as pa

    from trainwright.trainer.data.sections import SplitSection
    from trainwright.trainer.data.splits import Loaded, Splits

ROWS_AT_ONCE = 1 << 14

Task = Literal["classification", "regression"]


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
    """What the places count: line or row."""

    def __post_init__(self) -> None:
        twice = sorted({name for name in self.header if self.header.count(name) > 1})
        if twice:
            raise DataError(
                f"{self.path.name} has two columns named {twice[0]!r}.",
                remedy="Rename one of them in the file's header.",
            )

    def where(self, row: int) -> str:
        """Return where a row stands: `churn.csv line 3`."""
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


class Table(Source):
    """A table in a file."""

    path: Name

    def find(self, code_root: Path) -> Path:
        """Return the table's file. Raises ConfigurationError where it is not there."""
        return confine(self.path, code_root, key=PATH)

    @abstractmethod
    def batches(self, path: Path) -> Batches:
        """Return the rows some at a time. Raises UnusualError, or its library's errors, where they are not plain."""

    def cells(self, path: Path) -> Cells:
        """Return all cells.

        Raises:
            DataError: unreadable or cut short, empty, or two columns of one name.
        """
        from pyarrow import ArrowException

        try:
            table = self.batches(path)
            empty = Cells(path, table.header, [], [], "row")
            rows = [
                row
                for batch in table.read(empty.header)
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
            ]
        except (OSError, ValueError, KeyError, TypeError, ArrowException) as error:
            raise unreadable(path, error) from error
        if not rows:
            raise DataError(f"{path.name} has no rows.", remedy="Point data.args.path at a table with data in it.")
        return Cells(path, table.header, rows, range(1, len(rows) + 1), "row")


class Texts(Modelling, Table):
    """A table with a column of texts."""

    text: Name
    """Column of texts."""
    target: Name | None = None
    """Column to predict from them; left out: the texts themselves are modelled, each row a document."""
    task: Task | None = None
    max_length: Tokens = 128
    """Tokens to which a text is cut; for classification."""

    def load(self, code_root: Path, split: SplitSection) -> Splits:
        """Return splits of tokens: the tokenizer may learn from the train split."""
        from trainwright.trainer.data.sources.text_column import text_splits

        return text_splits(self, code_root, split)


class Numbers(Table):
    """A table of numbers with named columns."""

    texts: ClassVar[type[Texts]]
    """The same kind of table, read for a column of texts."""

    target: Name
    """Column to predict. Text, or few distinct whole numbers, are classes; else it is a number."""
    features: Annotated[list[Name], Field(min_length=1)] | None = None
    """Columns to predict from; left out: all others."""
    task: Task | None = None
    """Left out: guessed from the target."""
    standardize: bool = True

    @model_validator(mode="after")
    def _the_target_is_no_feature(self) -> Self:
        if self.features is not None and self.target in self.features:
            raise ValueError(f"features must not name the target {self.target!r}")
        return self

    @classmethod
    def form_of(cls, args: dict[str, Any]) -> type[Source]:
        """Return the form that reads a column of texts where the arguments name one."""
        return cls.texts if "text" in args else cls

    def load(self, code_root: Path, split: SplitSection) -> Loaded:  # noqa: ARG002 - of the protocol
        """Return inputs (rows, features) of float32 and targets (rows,)."""
        from trainwright.trainer.data.sources.tabular import load_numbers

        return load_numbers(self, self.find(code_root))


def files_of(path: Path) -> list[Path]:
    """Return the files of a source for the evidence: itself, or what lies in it."""
    return [path] if path.is_file() else sorted(files_among(path.iterdir()))
