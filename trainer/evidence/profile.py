"""Profile of the train split: what each column of a table holds. Of held-out rows nothing is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.run.profile import QUANTILES, ColumnProfile, Profile

MOST_ROWS = 100_000
MOST_COLUMNS = 500
MOST_VALUES = 50
"""Distinct values of a column that are listed with their shares; of one with more, quantiles are kept."""
DIGITS = 6


def profile_evidence(splits: Splits) -> Profile:
    """Return what the columns of the train split hold, as the source has them."""
    train = splits.samples["train"]
    if type(train) is not TensorSamples or train.base[0].dim() != 2:
        return Profile(problem="the samples are no rows of a table in memory")
    places = places_of(splits) or {f"column_{place}": place for place in range(train.base[0].shape[1])}
    size = len(train)
    chosen = np.arange(size)
    if size > MOST_ROWS:
        chosen = np.sort(np.random.default_rng(size).choice(size, MOST_ROWS, replace=False))
    inputs = train.column(0)[chosen].double().numpy()
    known = categories_of(splits)
    columns = {
        name: column_profile(inputs[:, place], known.get(name))
        for name, place in list(places.items())[:MOST_COLUMNS]
        if place < inputs.shape[1]
    }
    return Profile(columns=columns, rows=len(chosen))


def places_of(splits: Splits) -> dict[str, int]:
    """Return the input that each column of a table is, of those that are one input; empty where they have no names.

    Of a date with its time of day it is the day.
    """
    if splits.schema is None:
        return {name: place for place, name in enumerate(splits.feature_names or [])}
    found, place = {}, 0
    for column in splits.schema.features:
        if column.width == 1 or column.kind == "date":
            found[column.name] = place
        place += column.width
    return found


def categories_of(splits: Splits) -> dict[str, list[str]]:
    """Return the values of each column of categories, in the order of their codes."""
    columns = splits.schema.features if splits.schema is not None else []
    return {
        column.name: sorted(column.values, key=lambda value: column.values[value])
        for column in columns
        if column.kind == "category" and column.values
    }


def column_profile(values: np.ndarray[Any, Any], categories: list[str] | None = None) -> ColumnProfile:
    """Return the profile of a column, (rows,) of float64; NaN is missing, and so is a code below 0.

    Args:
        categories: of a column of codes, the value of each.
    """
    there = np.isfinite(values) if categories is None else values >= 0
    held = values[there]
    found: dict[str, Any] = {"count": len(values), "missing": int((~there).sum())}
    if not len(held):
        return ColumnProfile(**found)
    distinct, counts = np.unique(held, return_counts=True)
    if categories is not None or len(distinct) <= MOST_VALUES:
        order = np.argsort(-counts, kind="stable")[:MOST_VALUES]
        found["shares"] = {_named(distinct[at], categories): _rounded(counts[at] / len(held)) for at in order}
    if categories is None:
        ends = np.quantile(held, np.linspace(0.0, 1.0, QUANTILES))
        found |= {"mean": _rounded(held.mean()), "deviation": _rounded(held.std())}
        found["quantiles"] = [_rounded(end) for end in ends]
    return ColumnProfile(**found)


def _named(value: float, categories: list[str] | None) -> str:
    if categories is None:
        return f"{value:g}"
    return categories[int(value)] if int(value) < len(categories) else f"{value:g}"


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
