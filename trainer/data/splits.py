"""Splits: samples divided into train, validation and test, and the findings in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.fingerprint import SplitRecord
from trainwright.trainer.data.first_look import FirstLook, Found
from trainwright.trainer.data.sections import SplitSection

if TYPE_CHECKING:
    import torch

    from trainwright.trainer.data.text.language import TextRecord


Indices = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
NAMES = ("train", "validation", "test")
PIECE = 1 << 22
"""Samples that are processed together where an array of all would be wider than the kept one."""


def split_indices(
    digests: Sequence[str], labels: Sequence[int] | Indices | None, section: SplitSection
) -> dict[str, Indices]:
    """Return sorted sample indices, (samples of the split,), by split name.

    Equal samples (equal digests) go to the same split, so that no copy of a training sample is ever tested on.
    With `labels` and `section.stratify` each split gets its share of every class.

    Raises:
        DataError: too few distinct samples to fill the splits.
    """
    first: dict[str, int] = {}
    units = np.array([first.setdefault(digest, len(first)) for digest in digests], dtype=np.int64)
    return split_units(units, None if labels is None else np.asarray(labels), section)


def split_units(units: Indices | int, labels: Indices | None, section: SplitSection) -> dict[str, Indices]:
    """Return sorted sample indices by split name, of int32 where that is wide enough.

    Args:
        units: which samples are equal, (samples,): the number of each one's first like it, in order of appearance.
            Or how many samples there are, where all are taken to differ: no array of them is made then.
        labels: classes, (samples,).
        section: shares, seed and whether classes are dealt out evenly.

    Raises:
        DataError: too few distinct samples to fill the splits.
    """
    size = units if isinstance(units, int) else len(units)
    distinct = units if isinstance(units, int) else int(units.max(initial=-1)) + 1
    classes = None
    if labels is not None and section.stratify:
        classes = labels
        if not isinstance(units, int):
            classes = np.zeros(distinct, dtype=np.int64)
            classes[units[::-1]] = labels[::-1]  # the first copy's label decides
    assigned = _assign(distinct, classes, section)
    of_samples = assigned if isinstance(units, int) else assigned[units]
    splits = {name: _places(of_samples, code) for code, name in enumerate(NAMES)}
    wanted = {"train": True, "validation": section.validation > 0, "test": section.test > 0}
    empty = [name for name, needed in wanted.items() if needed and not len(splits[name])]
    if empty:
        raise DataError(
            f"{distinct} distinct samples are too few for the split: {', '.join(empty)} would be empty.",
            remedy="Give more samples, or change data.split.validation and data.split.test.",
            details={"samples": size, "distinct": distinct},
        )
    return splits


def _assign(count: int, classes: Indices | None, section: SplitSection) -> np.ndarray[Any, np.dtype[np.int8]]:
    """Return 0 (train), 1 (validation) or 2 (test) for each unit, by shares within each class."""
    generator = np.random.default_rng([section.seed, count])
    assigned = np.zeros(count, dtype=np.int8)
    owed = np.zeros(3)  # rows that rounding has withheld from each split so far: small classes share them
    shares = np.array([1.0 - section.validation - section.test, section.validation, section.test])
    for members in _by_class(count, classes):
        generator.shuffle(members)
        owed += shares * len(members)
        counts = np.maximum(np.round(owed), 0).astype(int)
        counts[0] = len(members) - min(counts[1] + counts[2], len(members))
        counts[1] = min(counts[1], len(members))
        counts[2] = len(members) - counts[0] - counts[1]
        owed -= counts
        assigned[members[counts[0] : counts[0] + counts[1]]] = 1
        assigned[members[counts[0] + counts[1] :]] = 2
    return assigned


def _by_class(count: int, classes: Indices | None) -> list[Indices]:
    """Return the units of each class, in order of the classes."""
    if classes is None:
        return [np.arange(count, dtype=_width(count))]
    order = np.argsort(classes, kind="stable").astype(_width(count))
    sizes = np.unique(classes, return_counts=True)[1]
    return np.split(order, np.cumsum(sizes)[:-1])


def _places(of_samples: np.ndarray[Any, np.dtype[np.int8]], code: int) -> Indices:
    """Return the code's places, found piece by piece: numpy finds places as int64 only."""
    width = _width(len(of_samples))
    pieces = [
        (np.flatnonzero(of_samples[start : start + PIECE] == code) + start).astype(width)
        for start in range(0, len(of_samples), PIECE)
    ]
    return np.concatenate(pieces) if pieces else np.array([], dtype=width)


def _width(count: int) -> type[np.signedinteger[Any]]:
    return np.int32 if count < 2**31 else np.int64


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
    feature_names: list[str] | None = None
    preprocessing: dict[str, Any] | None = None
    """Measured on the train split and applied to all: {"mean": [...], "scale": [...]}."""
    files: list[Path] = field(default_factory=list)
    raw_test: list[str] | None = None
    """Digests of the test samples before they were standardised, which another train split does otherwise."""
    split: dict[str, Any] | None = None
    """The split section when the engine split the data itself."""
    text: TextRecord | None = None
    """How text became tokens, where it did."""
    shared_with_test: set[str] = field(default_factory=set)
    """Digests of samples that test shared with the others, found before its rows were withheld."""
    look: Look | None = None
    """First look at a large file, by this run or an earlier one."""
    raw_type: torch.dtype | None = None
    """Type of the standardised inputs before that."""
