"""Key of a user's samples by which `data.split` divides them: read off each sample, and no input of the model.

So it is with a source's column of the split: `Loaded.keys` has it, and the samples do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from itertools import combinations, islice
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import IterableDataset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.loader import announce_epoch
from trainwright.trainer.data.order import Part, without_key
from trainwright.trainer.data.plain_values import target_key
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.rows import Indices, numbered, without_keys
from trainwright.trainer.user_code.clock import clock

TOGETHER = ("group", "hash")
"""Ways to split in which a value of the key is in one split only."""
STOPPED = object()
VALUES = (str, bytes, int, float, date, np.generic)


@dataclass(frozen=True)
class OwnParts:
    """A user's samples by split, without the key that they are split by."""

    samples: dict[str, Any]
    divided: bool
    """Whether they were divided here, not by the user's code."""
    key: Array | None = None
    """The key's values, (rows,)."""
    places: dict[str, Indices] = field(default_factory=dict)
    """Which of these rows each split's samples are, in order."""


def key_off(sample: Any, section: SplitSection) -> tuple[Any, str | None]:
    """Return the value by which a sample is split, and its key where that is no input: the target stays.

    Raises:
        DataError: the sample is no mapping with that key, or its value is none that rows are divided by.
    """
    key = section.key
    if key is None or not _has(sample, key):
        raise without_keys(section)
    value = sample[key]
    if isinstance(value, Tensor | np.ndarray) and value.nbytes and math.prod(value.shape) == 1:
        value = value.item()
    if value is not None and not isinstance(value, VALUES):
        raise DataError(
            f"{section.key_option} is {key!r}, and that of a sample is a {type(value).__name__}, by which no rows are "
            "divided.",
            remedy="Return a text, a number or a date for it in each sample.",
        )
    return value, None if target_key(sample) == key else key


def read_keys(parts: dict[str, Any], section: SplitSection) -> OwnParts:
    """Return samples that the user's code divided, their key read and taken off where they have that of the section.

    Raises:
        DataError: a sample without the key, or by groups a value that is in two splits.
    """
    first = [] if section.key is None else _read(parts["train"], "train", section, most=1)
    if not first or not _has(first[0], section.key):
        return OwnParts(parts, divided=False)
    name = key_off(first[0], section)[1]
    values = {split: _read(part, split, section, lambda one: key_off(one, section)[0]) for split, part in parts.items()}
    key = np.array([value for of in values.values() for value in of])
    ends = np.cumsum([len(of) for of in values.values()])
    places = {split: np.arange(end - len(of), end) for (split, of), end in zip(values.items(), ends, strict=True)}
    if section.by in TOGETHER:
        _require_apart(key, places, section)
    return OwnParts({split: _without(part, name) for split, part in parts.items()}, False, key, places)


def _has(sample: Any, key: str | None) -> bool:
    return isinstance(sample, Mapping) and key in sample


def _read(
    samples: Any,
    split: str,
    section: SplitSection,
    look: Callable[[Any], Any] | None = None,
    most: int | None = None,
) -> list[Any]:
    """Return what is seen of each sample, drawn as the rows of evaluation are: of a stream in the same order.

    A stream that does not say how many samples it has gives none: it is refused where it is batched.
    """
    is_stream, found, key = isinstance(samples, IterableDataset), [], seeding.of_split(seeding.SPLITS.index(split))
    size = len(samples) if hasattr(samples, "__len__") else most or 0
    size = size if most is None else min(size, most)
    with seeding.preserved(), clock.each_call_alone():
        announce_epoch(samples, 0)
        seeding.seed_sample(section.seed, 0, *key)
        drawn = islice(iter(samples), size) if is_stream else None
        for index in range(size):
            clock.next_call()
            if drawn is None:
                seeding.seed_sample(section.seed, 0, index, *key)
            sample = samples[index] if drawn is None else next(drawn, STOPPED)
            if sample is STOPPED:
                break
            found.append(sample if look is None else look(sample))
    return found


def _require_apart(key: Array, places: Mapping[str, Indices], section: SplitSection) -> None:
    values, numbers = numbered(key)
    for (one, rows), (other, others) in combinations(places.items(), 2):
        both = np.intersect1d(numbers[rows], numbers[others])
        if len(both):
            more = f" and {len(both) - 1} more are" if len(both) > 1 else " is"
            raise DataError(
                f"{section.key} {str(values[both[0]])!r}{more} in {one} and in {other}, as your code divides the "
                f"samples; data.split.by {section.by} keeps each {section.key} in one split.",
                remedy=f"Divide by whole values of {section.key}, return all samples as one data set, which is then "
                "divided here, or: configure(changes={'data.split': null}).",
                details={"column": section.key, "values": [str(each) for each in values[both[:20]]]},
            )


def _without(samples: Any, key: str | None) -> Any:
    if not isinstance(samples, IterableDataset):
        return Part(samples, np.arange(len(samples)), key)
    return (SizedStream if hasattr(samples, "__len__") else Stream)(samples, key)


class Stream(IterableDataset[Any]):
    """A user's stream, its samples without a key."""

    def __init__(self, dataset: Any, key: str | None) -> None:
        self.dataset, self.key = dataset, key

    def __iter__(self) -> Iterator[Any]:
        return (without_key(sample, self.key) for sample in self.dataset)

    def set_epoch(self, epoch: int) -> None:
        """Announce the epoch to the user's stream."""
        announce_epoch(self.dataset, epoch)


class SizedStream(Stream):
    """One that says how many samples it has."""

    def __len__(self) -> int:
        return len(self.dataset)
