"""Splits: samples divided into train, validation and test, and the findings in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.fingerprint import SplitRecord
from trainwright.trainer.data.first_look import FirstLook, Found
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods import METHODS
from trainwright.trainer.data.split_methods.keeping import is_kept, kept_sides
from trainwright.trainer.data.split_methods.rows import NAMES, Codes, Indices, Rows, without_keys

if TYPE_CHECKING:
    from trainwright.trainer.data.marks import Marks
    from trainwright.trainer.data.preprocessing import Preprocessing
    from trainwright.trainer.data.series import Series
    from trainwright.trainer.data.table.schema import TableSchema
    from trainwright.trainer.data.text.language import TextRecord


KEPT = (
    " Rows that an earlier plan of the project tested on stay test rows, and its others become none: bring rows that "
    "it did not have, or create another project for these."
)
PIECE = 1 << 22
"""Samples that are processed together where an array of all would be wider than the kept one."""


def split_indices(
    digests: Sequence[str],
    labels: Sequence[int] | Indices | None,
    section: SplitSection,
    key: Array | None = None,
    marks: Callable[[], Marks] | None = None,
) -> dict[str, Indices]:
    """Return sorted sample indices, (samples of the split,), by split name.

    Equal samples (equal digests) go to the same split, so that no copy of a training sample is ever tested on.
    With `labels` and `section.stratify` each split gets its share of every class.

    Raises:
        DataError: too few distinct samples to fill the splits, or a `key` that cannot be split by.
    """
    first: dict[str, int] = {}
    units = np.array([first.setdefault(digest, len(first)) for digest in digests], dtype=np.int64)
    known = None if labels is None else np.asarray(labels)
    return split_rows(Rows(units, known, key, lambda: digests, marks), section)


def split_units(units: Indices | int, labels: Indices | None, section: SplitSection) -> dict[str, Indices]:
    """Return sorted sample indices by split name, as `split_rows`, of samples of which only this is known."""
    return split_rows(Rows(units, labels), section)


def split_rows(rows: Rows, section: SplitSection) -> dict[str, Indices]:
    """Return sorted sample indices by split name, of int32 where that is wide enough.

    Raises:
        DataError: too few distinct samples to fill the splits, or a column that cannot be split by.
    """
    if section.key is not None and rows.key is None:
        raise without_keys(section)
    of_samples = kept_sides(METHODS[section.by](rows, section), rows, section)
    splits = {name: _places(of_samples, code) for code, name in enumerate(NAMES)}
    is_free = section.by == "given"  # the column may leave validation or test out
    wanted = {"train": True, "validation": section.validation > 0, "test": section.test > 0}
    empty = [name for name, needed in wanted.items() if needed and not len(splits[name])]
    if empty and not (is_free and "train" not in empty):
        distinct = rows.distinct
        raise DataError(
            f"{distinct} distinct samples are too few for the split: {', '.join(empty)} would be empty."
            if section.key is None
            else f"Split by {section.by} of {section.of}, {', '.join(empty)} would be empty.",
            remedy="Give more samples, or change data.split.validation and data.split.test." + KEPT * is_kept(),
            details={"samples": rows.size, "distinct": distinct},
        )
    return splits


def _places(of_samples: Codes, code: int) -> Indices:
    """Return the code's places, found piece by piece: numpy finds places as int64 only."""
    width = np.int32 if len(of_samples) < 2**31 else np.int64
    pieces = [
        (np.flatnonzero(of_samples[start : start + PIECE] == code) + start).astype(width)
        for start in range(0, len(of_samples), PIECE)
    ]
    return np.concatenate(pieces) if pieces else np.array([], dtype=width)


@dataclass(frozen=True)
class Look:
    """First look at a large file, and where it is kept."""

    looks: FirstLook
    key: str
    is_known: bool
    """Whether an earlier run has looked."""
    found: Found | None = None


@dataclass
class Splits:
    """The samples of a run by split, and the findings in them."""

    samples: dict[str, Any]
    """train, and where there are any validation and test."""
    records: dict[str, SplitRecord]
    source: str
    class_names: list[str] | None = None
    """Of classes by their numbers, or of several labels."""
    feature_names: list[str] | None = None
    preprocessing: Preprocessing | None = None
    """Fitted on the train split and applied to all samples."""
    schema: TableSchema | None = None
    """Of a table: what its columns are, and how their cells became numbers."""
    files: list[Path] = field(default_factory=list)
    split: dict[str, Any] | None = None
    """How the engine split the data, when it did, with the facts of `split_methods.facts`."""
    text: TextRecord | None = None
    """How text became tokens, where it did."""
    task: str | None = None
    """Of a model of the Transformers library, where the samples are made for one (models/tasks.py)."""
    outputs: int | None = None
    """Outputs that a model needs for them, where neither classes nor the vocabulary say it."""
    shared_with_test: set[str] = field(default_factory=set)
    """Digests of samples that test shared with the others, found before its rows were withheld."""
    look: Look | None = None
    """First look at a large file, by this run or an earlier one."""
    skipped: list[str] = field(default_factory=list)
    """Files that could not be read, or rows without a target, left out as the configuration allows."""
    understood: dict[str, Any] = field(default_factory=dict)
    """What the source took the data for."""
    series: Series | None = None
    """Rows in order of time, where samples are windows of them."""
    groups: dict[str, Indices] = field(default_factory=dict)
    """Number of each row's group, (rows of the split,), of validation and test where a column divides by groups."""
    group_marks: list[bytes] = field(default_factory=list)
    """Of the groups outside the test split, of a source's rows (split_methods.facts)."""
    placed_in: str = ""
    """Digest of the files whose rows the samples are by number; empty where they are not."""
    target_names: list[str] | None = None
    """Names of the targets' columns, (rows, targets), where there are several."""

    @property
    def feature_groups(self) -> list[int] | None:
        """How many neighbouring columns of an input belong to each feature (a category's values); None: one each."""
        return None if self.preprocessing is None else self.preprocessing.feature_groups

    @property
    def naive_errors(self) -> tuple[float, ...]:
        """What the value one season before is off by on the train rows, of each target; empty of data of no series."""
        return () if self.series is None else tuple(self.series.naive_errors(self.samples["train"].rows))
