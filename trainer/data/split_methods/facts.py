"""Facts about a split that was made by a column, for the evidence: read off the splits, however they were made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.cells import group_mark
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.by_scaffold import scaffolds
from trainwright.trainer.data.split_methods.by_time import instants
from trainwright.trainer.data.split_methods.rows import NAMES, Indices, numbered


def facts_of(section: SplitSection, key: Array | None, splits: Mapping[str, Indices]) -> dict[str, Any]:
    """Return, by split, the first and last time, or the number of groups or scaffolds; {} for other splits.

    Args:
        section: how the split was made.
        key: the column that it needs, (rows,).
        splits: row numbers of each split.
    """
    if key is None or section.by == "given":
        return {}
    filled = {name: places for name, places in splits.items() if len(places)}
    if section.by == "time":
        times = instants(key, str(section.key))
        return {"times": {name: _ends(key[places], times[places]) for name, places in filled.items()}}
    values = numbered(scaffolds(key, str(section.key)) if section.by == "scaffold" else key)[1]
    named = "scaffolds" if section.by == "scaffold" else "groups"
    return {named: {name: len(np.unique(values[places])) for name, places in filled.items()}}


def numbers_of(key: Array, splits: Mapping[str, Indices]) -> dict[str, Indices]:
    """Return the number of each row's value of a column, (rows of the split,), by split."""
    numbers = numbered(key)[1]
    return {name: numbers[places] for name, places in splits.items()}


class Grouped(NamedTuple):
    """Groups that a split keeps together."""

    numbers: dict[str, Indices]
    """Number of each row's group, (rows of the split,), of held-out splits by group."""
    marks: list[bytes]
    """Of the groups that have a row outside the test split (cells.group_mark), sorted."""


def grouped(section: SplitSection, key: Array | None, splits: Mapping[str, Indices]) -> Grouped:
    """Return the groups of a split that keeps the values of a column together; of another, none."""
    if key is None or section.group is None or section.by not in {"group", "hash"}:
        return Grouped({}, [])
    values, numbers = numbered(key)
    found = {name: numbers[places] for name, places in splits.items()}
    met = np.unique(np.concatenate([found[name] for name in found if name != NAMES[-1]]))
    held_out = {name: of for name, of in found.items() if name != NAMES[0] and section.by == "group"}
    # Dates of typed files are written otherwise in a text: no group is known by them.
    marks = {group_mark(one) for one in values[met].tolist()} if values.dtype.kind != "M" else set()
    return Grouped(held_out, sorted(marks))


def _ends(values: Array, times: Array) -> list[Any]:
    """Return the first and the last value, as they are in the data."""
    ends = (values[int(times.argmin())], values[int(times.argmax())])
    return [
        value.item() if isinstance(value, int | float | np.number) and hasattr(value, "item") else str(value)
        for value in ends
    ]
