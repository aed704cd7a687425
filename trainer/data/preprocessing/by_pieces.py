"""Measures of the columns of a large table, some rows at a time: as `table.py` has them, but for the median.

That of more than MEDIAN_ROWS rows is the median of so many, drawn always the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from trainwright.trainer.data import rows
from trainwright.trainer.data.table.schema import Column
from trainwright.trainer.data.tensors import TensorSamples

MEDIAN_ROWS = 1 << 18

Array = np.ndarray[Any, Any]


@dataclass
class Measured:
    """What a column's first input holds, over all rows."""

    rows: int = 0
    holes: int = 0
    total: float = 0.0
    squares: float = 0.0
    """Sum of squared differences from `guess`."""
    guess: float = 0.0
    median: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Of each category's code, (codes,)."""

    @property
    def mean(self) -> float:
        """Mean of the values that are there; 0 without any."""
        return self.guess + self.total / max(self.rows - self.holes, 1)

    def filled(self, fill: float) -> tuple[float, float]:
        """Return mean and deviation once holes are filled."""
        present = self.rows - self.holes
        mean = self.mean + (fill - self.mean) * self.holes / self.rows
        around = self.squares - self.total**2 / max(present, 1)  # about their own mean
        square = max(around, 0.0) + present * (self.mean - mean) ** 2 + self.holes * (fill - mean) ** 2
        return mean, float(np.sqrt(square / self.rows))


def measured(columns: list[Column], train: TensorSamples) -> list[Measured]:
    """Return the measures of each column of encoded rows, (rows, inputs), in one pass."""
    inputs = TensorSamples(train.base[0], rows=train.rows)
    places = np.cumsum([0, *(column.width for column in columns)])[:-1]
    found = [Measured(counts=np.zeros(len(column.values), dtype=np.int64)) for column in columns]
    drawn = _drawn(inputs)[:, places]
    for column, one, values in zip(columns, found, drawn.T, strict=True):
        there = values[~np.isnan(values)].astype(np.float64)
        if len(there) and column.kind != "category":
            one.median, one.guess = float(np.median(there)), float(there.mean())
    for _, (piece,) in rows.pieces(inputs):
        block = piece.numpy()[:, places]
        for column, one, values in zip(columns, found, block.T, strict=True):
            _add(one, values, is_category=column.kind == "category")
    return found


def _add(one: Measured, values: Array, *, is_category: bool) -> None:
    there = values[~np.isnan(values)]
    one.rows += len(values)
    one.holes += len(values) - len(there)
    if is_category:
        one.counts += np.bincount(there.astype(np.int64), minlength=len(one.counts))
        return
    apart = there.astype(np.float64) - one.guess
    one.total += float(apart.sum())
    one.squares += float(apart @ apart)


def _drawn(inputs: TensorSamples) -> Array:
    size = len(inputs)
    chosen = np.arange(size)
    if size > MEDIAN_ROWS:
        chosen = np.sort(np.random.default_rng(size).choice(size, MEDIAN_ROWS, replace=False, shuffle=False))
    return inputs.gather(torch.from_numpy(chosen))[0].numpy()
