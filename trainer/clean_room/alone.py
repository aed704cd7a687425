"""Independence of rows: a program's answers to rows drawn at random, alone and among others.

A program that averages over its batch, or sorts it, knows of a row's neighbours what nobody who uses it will know.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .programs import Program
from .rows import Array, RefusalError

MAX_ROWS, MIN_ROWS = 256, 8
MAX_SECONDS = 10.0
"""After which no more than the fewest rows are called alone."""
MAX_NUMBERS = 4096
"""Of a row's output that are compared, drawn at random of more."""
APART, ROUNDING = 0.02, 1e-6
"""Differences of a number that pass: in its standard deviations over the rows, and as a share of its largest value."""
REMEDY = (
    "Let the model compute each row by itself: no mean, sort, softmax or attention over the first dimension, and batch "
    "normalization with running statistics (track_running_stats=True) in evaluation mode. Then train again."
)


@dataclass
class Alone:
    """Compares a program's outputs for a sample of the rows, drawn anew each time, with those for each row alone."""

    program: Program
    rows: int
    pairs: list[tuple[Array, Array]] = field(default_factory=list)
    """Of each row that was called: its output among others and alone, (numbers,) each."""

    def __post_init__(self) -> None:
        """Draw the rows."""
        self.draws = np.random.default_rng()
        self.chosen = np.sort(self.draws.choice(self.rows, min(self.rows, MAX_ROWS), replace=False))
        self.places: dict[int, Array] = {}
        self.until = time.monotonic() + MAX_SECONDS

    def compare(self, start: int, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Call the rows of a batch that were drawn; `start` is the number of its first row, all are (rows, ...)."""
        among = next(iter(outputs.values()))
        if among.ndim == 0:
            return
        first, last = np.searchsorted(self.chosen, [start, start + len(among)])
        for row in self.chosen[first:last] - start:
            if len(self.pairs) >= MIN_ROWS and time.monotonic() > self.until:
                return
            self.pairs.append((self._numbers(among[row]), self._numbers(self._output_alone(inputs, row))))

    def _output_alone(self, inputs: Mapping[str, Array], row: int) -> Array:
        """Return a row's output beside itself alone: some programs take two rows at least, others a fixed number."""
        count = self.program.batch or 2
        alone = self.program({name: np.repeat(values[row : row + 1], count, axis=0) for name, values in inputs.items()})
        return np.asarray(next(iter(alone.values()))[0])

    def _numbers(self, output: Array) -> Array:
        """Return an output's numbers, (numbers,), or of very many the same ones of each that has as many."""
        flat = output.reshape(-1)
        if len(flat) > MAX_NUMBERS and len(flat) not in self.places:
            self.places[len(flat)] = self.draws.choice(len(flat), MAX_NUMBERS, replace=False)
        return np.asarray(flat[self.places[len(flat)]] if len(flat) > MAX_NUMBERS else flat, dtype=float)

    def require_same(self) -> None:
        """Raise RefusalError where a row's output depends on the rows beside it."""
        apart = sum(self._differ())
        if apart:
            raise RefusalError(
                f"The program answers a row by the rows beside it: alone, {apart} of {len(self.pairs)} rows drawn get "
                "other outputs.",
                REMEDY,
            )

    def _differ(self) -> list[bool]:
        if any(one.shape != other.shape for one, other in self.pairs):
            return [True]
        if len({one.shape for one, _ in self.pairs}) != 1:  # rows of their own lengths: of each its largest difference
            return [_is_apart(one[None], other[None], np.std(one))[0] for one, other in self.pairs]
        among, alone = (np.stack(part) for part in zip(*self.pairs, strict=True))
        return _is_apart(among, alone, among.std(axis=0))


def _is_apart(among: Array, alone: Array, deviation: Array | np.floating[Any]) -> list[bool]:
    """Return for each row whether a number differs, of (rows, numbers) each; what is not finite must be the same."""
    allowed = APART * deviation + ROUNDING * np.abs(among).max(axis=0)
    same = (np.abs(among - alone) <= allowed) | (among == alone) | (np.isnan(among) & np.isnan(alone))
    return [bool(one) for one in ~same.all(axis=1)]
