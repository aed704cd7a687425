"""Splitting samples into train, validation and test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainwright.trainer.config.schema import SplitSection
from trainwright.trainer.errors import DataError

Indices = np.ndarray[Any, np.dtype[np.int64]]


def split_indices(digests: Sequence[str], labels: Sequence[int] | None, section: SplitSection) -> dict[str, Indices]:
    """Return sorted sample indices by split name.

    Equal samples (equal digests) go to the same split, so that no copy of a training sample is ever tested on.
    With `labels` and `section.stratify` each split gets its share of every class.

    Raises:
        DataError: too few distinct samples to fill the splits.
    """
    first: dict[str, int] = {}
    unit_of = np.array([first.setdefault(digest, len(first)) for digest in digests])
    classes = np.zeros(len(first), dtype=np.int64)
    if labels is not None and section.stratify:
        classes[unit_of[::-1]] = np.asarray(labels)[::-1]  # the first copy's label decides
    assigned = _assign(classes, section)
    splits = {
        name: np.flatnonzero(assigned[unit_of] == code) for code, name in enumerate(("train", "validation", "test"))
    }
    wanted = {"train": True, "validation": section.validation > 0, "test": section.test > 0}
    empty = [name for name, needed in wanted.items() if needed and not len(splits[name])]
    if empty:
        raise DataError(
            f"{len(first)} distinct samples are too few for the split: {', '.join(empty)} would be empty.",
            remedy="Give more samples, or change data.split.validation and data.split.test.",
            details={"samples": len(digests), "distinct": len(first)},
        )
    return splits


def _assign(classes: Indices, section: SplitSection) -> Indices:
    """Return 0 (train), 1 (validation) or 2 (test) for each unit, by shares within each class."""
    generator = np.random.default_rng([section.seed, len(classes)])
    assigned = np.zeros(len(classes), dtype=np.int64)
    owed = np.zeros(3)  # what rounding has kept back from each split so far: small classes share it out
    shares = np.array([1.0 - section.validation - section.test, section.validation, section.test])
    for label in np.unique(classes):
        members = generator.permutation(np.flatnonzero(classes == label))
        owed += shares * len(members)
        counts = np.maximum(np.round(owed), 0).astype(int)
        counts[0] = len(members) - min(counts[1] + counts[2], len(members))
        counts[1] = min(counts[1], len(members))
        counts[2] = len(members) - counts[0] - counts[1]
        owed -= counts
        assigned[members[counts[0] : counts[0] + counts[1]]] = 1
        assigned[members[counts[0] + counts[1] :]] = 2
    return assigned
