"""Tables in files: the options of every kind. A kind reads columns, some rows at a time."""

from __future__ import annotations

import csv
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.base.paths import MAX_NAMED, confine, matching
from trainwright.trainer.data.sections import SeriesSection, SplitSection, targets_of
from trainwright.trainer.data.sources.cells import Wanted, files_of, no_rows
from trainwright.trainer.data.sources.file_kinds import kind_of_file
from trainwright.trainer.data.sources.source import (
    PATH,
    Files,
    Loaded,
    Name,
    Source,
    Target,
    TargetOptions,
    unreadable,
)
from trainwright.trainer.data.sources.text_files import Modelling, Tokens
from trainwright.trainer.data.table.transform import TORN

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from trainwright.trainer.data.sources.reading import Reading
    from trainwright.trainer.data.splits import Splits

Task = Literal["classification", "regression"]
Kind = Literal["number", "category", "boolean", "date", "text", "ignore"]
UNREADABLE = (OSError, ValueError, LookupError, TypeError, csv.Error, *TORN)
"""Errors of the libraries that read files."""


class Table(Files):
    """A table in a file, or in several of the same columns."""

    columns_at_once: ClassVar[int] = 1 << 30
    """Columns that are best read together, where a reader keeps much for each."""

    is_text: ClassVar[bool] = False
    """Whether its cells are text, of no type."""

    path: Name | Annotated[list[Name], Field(min_length=1)]
    """A file, a pattern (`rows/*.csv`), or several."""
    if TYPE_CHECKING:  # a field here would come before that of Numbers, which is required

        @property
        def target(self) -> str | list[str] | None:
            """Column to predict, or several, if there are any."""

    task: Task | None = None
    """Left out: guessed from the target."""
    labels: dict[Name, Name] | None = None
    """Other spellings of classes, with the class that each is: `{"yes.": "yes"}`."""
    drop_without_target: bool = False
    """Leave rows out that have no target, and record which; else they are an error."""

    @property
    def targets(self) -> list[str]:
        """Columns to predict, in order."""
        return targets_of({"target": self.target})

    def files(self, code_root: Path) -> list[Path]:
        """Return the table's files in order. Raises ConfigurationError where one is not there."""
        return [self.confined(name, code_root) for name in self.file_names(code_root)]

    def file_names(self, code_root: Path) -> list[str]:
        """Return the names of `files` as given, or as a pattern finds them. Raises ConfigurationError for none."""
        given = [self.path] if isinstance(self.path, str) else self.path
        return [name for one in given for name in self._matching(one, code_root)]

    def _matching(self, path: str, code_root: Path) -> list[str]:
        names = matching(path, code_root, key=PATH)
        own = [name for name in names if self.endings and not _endings(name).isdisjoint(self.endings)]
        if own and len(own) < len(names):
            others = [name for name in names if name not in own]
            better = f"{path}.{Path(own[0]).suffix[1:]}" if path.endswith("*") else None
            raise ConfigurationError(
                f"`{PATH}` = {path!r} matches {len(own)} {self.name} and {len(others)} other files: "
                f"{', '.join(others[:MAX_NAMED])}{', …' if len(others) > MAX_NAMED else ''}.",
                remedy=f"Match {self.name} alone{f': {better!r}' if better else ''}; or name the files as a list.",
                details={"changes": {PATH: better}} if better else {},
            )
        return names

    def confined(self, path: str, code_root: Path) -> Path:
        """Return one of the files. Raises ConfigurationError where it is not there."""
        return confine(path, code_root, key=PATH)

    def files_in(self, path: Path) -> list[Path]:
        """Return the files behind one of `files`."""
        return files_of(path)

    def scan(self, code_root: Path) -> pl.LazyFrame:
        """Return the rows that training reads, in its order, without those that are left out."""
        import polars as pl

        from trainwright.trainer.data.sources.reading import Reading

        frame = self._scanned(Reading(self, self.files(code_root)))
        if not self.labels or not self.targets:
            return frame
        return frame.with_columns(pl.col(self.targets).cast(pl.String).str.strip_chars().replace(self.labels))

    def _scanned(self, reading: Reading) -> pl.LazyFrame:
        from trainwright.trainer.data.sources.typed_frame import frame_of

        return frame_of(reading)

    def header_of(self, path: Path) -> list[str]:
        """Return the columns' names. Raises DataError where they cannot be read, or two are equal."""
        from pyarrow import ArrowException

        try:
            if other := self._of_another_content(path):
                raise other
            return self._header(path)
        except (*UNREADABLE, ArrowException) as error:
            raise self._of_another_ending(path) or self._told(path, error) from error

    def read(self, path: Path, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of the files in order, with the columns that are wanted.

        Raises:
            OddNumbersError: cells of a column of numbers cannot be parsed as such.
            DataError: the file is unreadable or cut short.
        """
        from pyarrow import ArrowException

        try:
            yield from self._batches(path, wanted)
        except (*UNREADABLE, ArrowException) as error:
            raise self._of_another_ending(path) or self._told(path, error) from error

    @abstractmethod
    def _header(self, path: Path) -> list[str]:
        """Return the columns' names. Raises its library's errors."""

    @abstractmethod
    def _batches(self, path: Path, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """Yield the rows as `read` does. Raises its library's errors."""

    def _told(self, path: Path, error: Exception) -> DataError:
        """Return what is wrong with a file, as far as a damaged one can be looked at once more."""
        try:
            return self.diagnosed(path, error)
        except UNREADABLE:
            return unreadable(path, error)

    def diagnosed(self, path: Path, error: Exception) -> DataError:
        """Return what is wrong with a file that cannot be read. Raises its library's errors where it is damaged."""
        return unreadable(path, error)

    def _of_another_content(self, path: Path) -> DataError | None:
        """Return the error for a file whose first bytes are those of another kind; None for others."""
        found = kind_of_file(path)
        if found is None or found.use == self.name or (self.name == "sql" and found.use == "parquet"):
            return None
        if found.use is not None:
            return self._read_by(path, found.use, found.said)
        return DataError(f"{path.name} is {found.said}: it is no {self.name}.", remedy=f"{found.remedy}.")

    def _of_another_ending(self, path: Path) -> DataError | None:
        """Return the error for an unreadable file with the ending of another source; None for others."""
        ending = path.suffix.removeprefix(".").lower()
        kinds = () if not self.endings or ending in self.endings else Numbers.__subclasses__()
        use = next((kind.name for kind in kinds if ending in kind.endings), None)
        return None if use is None else self._read_by(path, use, f"a file with the ending of {use}")

    def _read_by(self, path: Path, use: str, said: str) -> DataError:
        args = self.model_dump(mode="json", exclude_unset=True)
        other = next((kind for kind in Numbers.__subclasses__() if kind.name == use), None)
        known = ["path"] if other is None else [*other.model_fields, *other.texts.model_fields]
        return DataError(
            f"{path.name} is {said}, and cannot be read as {self.name}.",
            remedy=f"Set data.use to {use}.",
            details={"changes": {"data.use": use, "data.args": {key: args[key] for key in args if key in known}}},
        )

    def without_rows(self, path: Path) -> DataError:
        """Return the error for a file with a header and no rows."""
        return no_rows(path)

    def places(self, path: Path) -> Iterator[str]:
        """Yield the place of each row: `churn.csv line 3`."""
        return (f"{path.name} row {row}" for row in count(1))

    def where(self, path: Path, row: int) -> str:
        """Return a row's place."""
        return next(islice(self.places(path), row, None))

    def reading(self, path: Path) -> dict[str, Any]:  # noqa: ARG002 - for text files
        """Return how a text file is read, for those who read it when the model serves."""
        return {}


def _endings(name: str) -> set[str]:
    """Return the last ending of a name, and what stands before one of a compressed file: `rows.csv.gz`."""
    return {suffix[1:].lower() for suffix in Path(name).suffixes[-2:]}


class Texts(Modelling, Table):
    """A table with a column of texts."""

    text: Name
    """Column of texts."""
    target: Target | None = None
    """Column to predict from them; left out: the texts themselves are modelled, each row a document."""
    max_length: Tokens = 128
    """Tokens to which a text is cut; for classification."""

    @model_validator(mode="after")
    def _rows_without_a_target_lack_one(self) -> Self:
        if self.drop_without_target and self.target is None:
            raise ValueError("drop_without_target needs a target")
        return self

    def load(self, code_root: Path, split: SplitSection) -> Splits:
        """Return splits of tokens: the tokenizer may learn from the train split."""
        from trainwright.trainer.data.sources.text_column import text_splits

        return text_splits(self, code_root, split)


class Numbers(Table):
    """A table with named columns, of which one or several are predicted from the others."""

    texts: ClassVar[type[Texts]]
    """The same kind of table, read for a column of texts."""

    target: Target
    """Column to predict. Text, or few distinct integers, are classes; else it is a number. Or several columns."""
    features: Annotated[list[Name], Field(min_length=1)] | None = None
    """Columns to predict from; left out: all others, but for identifiers."""
    columns: dict[Name, Kind] | None = None
    """Kind of columns, where it is not to be inferred: number, category, boolean, date, text, ignore."""
    decimal: Literal[".", ","] | None = None
    """Decimal mark of numbers in text, where the cells leave it open; left out: found in them."""
    day_first: bool | None = None
    """Whether 03/04/2024 is the third of April, where no cell tells; left out: asked then."""
    standardize: bool = True
    """Of a table of numbers without holes; others are always scaled."""
    series: SeriesSection | None = None
    """Windows over the rows in order of time; left out: each row is a sample."""

    @model_validator(mode="after")
    def _the_target_is_no_feature(self) -> Self:
        named = [name for name in self.targets if name in (self.features or [])]
        if named and self.series is None:
            raise ValueError(f"features must not name the target {named[0]!r}")
        if self.series is not None and self.task == "classification":
            raise ValueError("series forecasts numbers, and task is classification")
        return self

    @property
    def targets(self) -> list[str]:
        """Columns to predict, in order, those of a series beside its first among them."""
        return list(dict.fromkeys([*super().targets, *(self.series.further_targets if self.series else [])]))

    @property
    def asked(self) -> TargetOptions:
        """What the configuration says of the target: of a series numbers are forecast."""
        return super().asked if self.series is None else replace(super().asked, task="regression")

    @classmethod
    def form_of(cls, args: dict[str, Any]) -> type[Source]:
        """Return the form that reads a column of texts where the arguments name one."""
        return cls.texts if "text" in args else cls

    def load(self, code_root: Path, split: SplitSection) -> Loaded:
        """Return inputs (rows, inputs) of float32 and targets (rows,)."""
        from trainwright.trainer.data.sources.tabular import load_numbers

        return load_numbers(self, code_root, split)
