"""Independence of rows: a program's answers to rows drawn at random, alone and among others.

A program that averages over its batch, or sorts it, knows of a row's neighbours what nobody who uses it will know.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from .programs import Program
from .rows import Array, RefusalError

MOST_ROWS, FEWEST_ROWS = 256, 8
MOST_SECONDS = 10.0
"""After which no more than the fewest rows are called alone."""
APART, ROUNDING = 0.25, 1e-3
"""Differences that pass: in standard deviations of the outputs (integer kernels scale by batch), and of the largest."""
REMEDY = (
    "Let the model compute each row by itself: no mean, sort, softmax or attention over the first dimension, and batch "
    "normalization with running statistics (track_running_stats=True) in evaluation mode. Then train again."
)


@dataclass
class Alone:
    """Compares a program's outputs for a sample of the rows, drawn anew each time, with those for each row alone."""

    program: Program
    rows: int
    differences: list[float] = field(default_factory=list)
    """Largest difference of each row that was called alone."""
    moments: Array = field(default_factory=lambda: np.zeros(3))
    """Number, sum and sum of squares of the outputs among others."""
    largest: float = 0.0

    def __post_init__(self) -> None:
        """Draw the rows."""
        count = min(self.rows, MOST_ROWS)
        self.chosen = np.sort(np.random.default_rng().choice(self.rows, count, replace=False))
        self.until = time.monotonic() + MOST_SECONDS

    def compare(self, start: int, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Call the rows of a batch that were drawn; `start` is the number of its first row, all are (rows, ...)."""
        among = next(iter(outputs.values()))
        if among.ndim == 0:
            return
        first, last = np.searchsorted(self.chosen, [start, start + len(among)])
        for row in self.chosen[first:last] - start:
            if len(self.differences) >= FEWEST_ROWS and time.monotonic() > self.until:
                return
            self._add(among[row], self._output_alone(inputs, row))

    def _output_alone(self, inputs: Mapping[str, Array], row: int) -> Array:
        """Return a row's output beside itself alone: some programs take two rows at least, others a fixed number."""
        count = self.program.batch or 2
        alone = self.program({name: np.repeat(values[row : row + 1], count, axis=0) for name, values in inputs.items()})
        return np.asarray(next(iter(alone.values()))[0])

    def _add(self, among: Array, alone: Array) -> None:
        one, other = among.astype(float).reshape(-1), alone.astype(float).reshape(-1)
        finite = np.isfinite(one)
        if len(one) != len(other) or not (finite == np.isfinite(other)).all():
            self.differences.append(np.inf)
            return
        one, other = one[finite], other[finite]
        self.differences.append(float(np.abs(one - other).max(initial=0.0)))
        self.moments += [len(one), one.sum(), np.square(one).sum()]
        self.largest = max(self.largest, float(np.abs(one).max(initial=0.0)))

    def require_same(self) -> None:
        """Raise RefusalError where a row's output depends on the rows beside it."""
        count, total, squares = self.moments
        mean = total / count if count else 0.0
        deviation = float(np.sqrt(max(squares / count - mean**2, 0.0))) if count else 0.0
        allowed = APART * deviation + ROUNDING * self.largest
        apart = [one for one in self.differences if one > allowed]
        if apart:
            some = f"{len(apart)} of {len(self.differences)} rows drawn"
            raise RefusalError(
                f"The program answers a row by the rows beside it: alone, {some} get other outputs, by up to "
                f"{max(apart):.3g} (outputs vary by {deviation:.3g}).",
                REMEDY,
            )
