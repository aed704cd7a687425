"""Facts about a split that was made by a column, for the evidence: read off the splits, however they were made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.by_scaffold import scaffolds
from trainwright.trainer.data.split_methods.by_time import instants
from trainwright.trainer.data.split_methods.rows import Array, Indices, numbered


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


def _ends(values: Array, times: Array) -> list[Any]:
    """Return the first and the last value, as they are in the data."""
    ends = (values[int(times.argmin())], values[int(times.argmax())])
    return [
        value.item() if isinstance(value, int | float | np.number) and hasattr(value, "item") else str(value)
        for value in ends
    ]
