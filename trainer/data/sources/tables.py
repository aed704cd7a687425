"""Tables in files: the options of every kind. A kind reads all cells, and whole columns some rows at a time."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.paths import confine
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.cells import Batches, Cells
from trainwright.trainer.data.sources.source import PATH, Loaded, Name, Source, unreadable
from trainwright.trainer.data.sources.text_files import Modelling, Tokens

if TYPE_CHECKING:
    from trainwright.trainer.data.splits import Splits

Task = Literal["classification", "regression"]


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
    """Column to predict. Text, or few distinct integers, are classes; else it is a number."""
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
