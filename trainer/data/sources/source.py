"""Source of data: its options, and how they are loaded. Light: the server reads the options, a worker loads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, PrivateAttr

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.section import Section
from trainwright.trainer.data.remote.storage import Storage
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.file_kinds import kind_of_file

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from trainwright.trainer.data.images.augmentation import Augmentation
    from trainwright.trainer.data.images.samples import ImageSamples
    from trainwright.trainer.data.preprocessing import Unfitted
    from trainwright.trainer.data.series import Series
    from trainwright.trainer.data.splits import Splits
    from trainwright.trainer.data.table.schema import TableSchema
    from trainwright.trainer.data.tensors import TensorSamples

Name = Annotated[str, Field(min_length=1)]


def _columns(given: Any) -> Any:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        return given
    if twice := next((name for name in given if given.count(name) > 1), None):
        raise ValueError(f"{twice!r} is named twice")
    return given[0] if len(given) == 1 else given


Target = Annotated[Name | Annotated[list[Name], Field(min_length=2)], BeforeValidator(_columns)]
"""Column to predict, or several: all numbers, or all of two values each."""
BUILT_IN_TOKENIZERS = {"bytes", "characters"}
PATH = "data.args.path"
"""Key of a source's file or folder, for messages."""


@dataclass(frozen=True)
class Loaded:
    """Samples of a source, with their known properties."""

    samples: TensorSamples | ImageSamples
    class_names: list[str] | None = None
    """Names by label for classification, or of several labels; None for regression."""
    feature_names: list[str] | None = None
    preprocessing: Unfitted | None = None
    """What is to be fitted on the train split and applied to all samples; None: they are what the model takes."""
    files: list[Path] = field(default_factory=list)
    """Files and folders that were read: a change of any of them is a change of the data."""
    schema: TableSchema | None = None
    """Of a table: what its columns are, and how their cells became numbers."""
    keys: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    """Columns by which samples are split (groups, times, folds …), (samples,) each, by name."""
    contents: Callable[[], Sequence[str]] | None = None
    """Returns each row's content as text, (rows,), where samples hold codes that change as data grow."""
    augment: Augmentation | None = None
    """Changes train pictures at random."""
    skipped: list[str] = field(default_factory=list)
    """Files that could not be read, or rows without a target, left out as the configuration allows."""
    understood: dict[str, Any] = field(default_factory=dict)
    """What the source took the data for, as the evidence states it."""
    series: Series | None = None
    """Rows in order of time, where samples are windows of them."""
    placed_in: str = ""
    """Digest of the files whose rows the samples are by number; empty where they are not."""
    target_names: list[str] | None = None
    """Names of the targets' columns, (rows, targets), where there are several."""


@dataclass(frozen=True)
class TargetOptions:
    """What the configuration says of a target."""

    task: str | None = None
    """As the data's arguments have it."""
    of_loss: str | None = None
    """As loss and metrics want it; it decides where the arguments are silent."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Class by another spelling of it."""


class Source(Section):
    """A built-in source: its fields are what `data.args` may hold. Heavy libraries are imported when it loads.

    A file's content is checked by the run that reads it.
    """

    name: ClassVar[str]
    """The value of `data.use`."""
    endings: ClassVar[tuple[str, ...]] = ()
    """Of the files that it reads."""
    scaled_by_publisher: ClassVar[str] = ""
    """How whoever published its rows has scaled them, over all of them; empty: they are as they were measured. No
    option: of rows of the user's own nobody else can say it."""

    _of_loss: str | None = PrivateAttr(default=None)

    def for_loss(self, of_loss: str | None) -> Self:
        """Take what loss and metrics want as a target, classification or regression, and return the source."""
        self._of_loss = of_loss
        return self

    @property
    def asked(self) -> TargetOptions:
        """What the configuration says of the target."""
        return TargetOptions(getattr(self, "task", None), self._of_loss, getattr(self, "labels", None) or {})

    @classmethod
    def form_of(cls, args: dict[str, Any]) -> type[Source]:  # noqa: ARG003 - for sources of several forms
        """Return the section that checks these arguments: a source that reads in several ways has several."""
        return cls

    @classmethod
    def first_modules(cls, args: dict[str, Any]) -> tuple[str, ...]:
        """Return the modules of other libraries that loading needs (see catalog/first_modules.py)."""
        if args.get("tokenizer", "bytes") in BUILT_IN_TOKENIZERS:
            return ()
        return ("tokenizers", "transformers.tokenization_utils_tokenizers")

    def scan(self, code_root: Path) -> pl.LazyFrame | None:  # noqa: ARG002 - of the protocol
        """Return the rows as they are in the files, lazily: row i is sample i before it is split.

        None where a source has no table of rows. Never in a process that forks another one to use polars: its
        threads do not survive a fork.

        Raises:
            ConfigurationError, DataError: as `load`.
        """
        return None

    @abstractmethod
    def load(self, code_root: Path, split: SplitSection) -> Loaded | Splits:
        """Return samples that are not split yet, with the files that they come from; or splits, where that comes first.

        The same files give the same samples in the same order.

        Args:
            code_root: the folder that every file is under.
            split: how samples will be divided, for a source that has to know.

        Raises:
            ConfigurationError: a path that is not there, or leads outside the code root.
            DataError: a file cannot be used; it says where it is wrong.
        """


class Files(Source):
    """A source of files, which `path` may name elsewhere: `s3://bucket/rows.csv`; they are fetched before it loads."""

    storage: Storage | None = None
    """Credentials of remote files, by the names of what holds them."""


def unreadable(path: Path, error: Exception) -> DataError:
    """Return the error for a file that its reader does not understand."""
    kind = kind_of_file(path)
    more = f"; by its first bytes it is {kind.said}" if kind is not None else ""
    return DataError(
        f"{path.name} cannot be read: {str(error)[:200]}{more}.",
        remedy="Point data.args.path at a readable file (csv, jsonl: UTF-8 text; npz: written by numpy.savez; parquet: "
        "whole; arrow: a folder of save_to_disk).",
    )
