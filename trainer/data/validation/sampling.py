"""Samples of a frame: evenly spaced rows, in memory, for statistics that need no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from trainwright.trainer.data.validation.values import dates_of_text

MOST = 100_000
MAX_CATEGORIES = 200


def evenly(frame: pl.LazyFrame, columns: list[str], most: int = MOST) -> tuple[pl.DataFrame, int]:
    """Return at most so many evenly spaced rows of some columns, and how many rows there are."""
    size = int(frame.select(pl.len()).collect(engine="streaming").item())
    every = max(-(-size // most), 1)
    return frame.select(columns).gather_every(every).collect(engine="streaming"), size


def with_dates(found: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with columns of text that hold dates alone (2026-01-31, with or without a time) as dates."""
    texts = [name for name, dtype in found.schema.items() if dtype == pl.String]
    read = found.select(dates_of_text(pl.col(name)).alias(name) for name in texts)
    whole = [name for name in texts if 0 < read[name].count() == found[name].count()]
    return found.with_columns(read[name] for name in whole)


def finite(values: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the finite numbers of a column of numbers, dates or truths, (filled,)."""
    physical = values.to_physical() if values.dtype.is_temporal() else values
    found = physical.cast(pl.Float64, strict=False).drop_nulls().to_numpy()
    return np.asarray(found[np.isfinite(found)])


def counts(values: pl.Series) -> dict[str, int]:
    """Return how often each value occurs; beyond a number of different ones, the rest together."""
    table = values.drop_nulls().cast(pl.String).value_counts(sort=True)
    found = {str(name): int(count) for name, count in table.iter_rows()}
    kept = dict(list(found.items())[:MAX_CATEGORIES])
    rest = sum(found.values()) - sum(kept.values())
    return {**kept, "(other)": rest} if rest else kept
