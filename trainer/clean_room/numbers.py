"""Metrics of numbers: each of every output by itself, then their plain mean, as scikit-learn's `uniform_average`.

Each number of a sample's target is an output. They follow from sums over the rows, which merge as in Chan, Golub and
LeVeque 1983 (10.1080/00031305.1983.10483115).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
EPSILON = np.finfo(np.float64).eps
"""By which a share of a target of 0 is taken, as in scikit-learn."""
NONE = partial(np.zeros, 0)


@dataclass(frozen=True)
class Sums:
    """Sums over rows, of each output: (outputs,), or (0,) where no metric needs them."""

    rows: Array
    absolute: Array = field(default_factory=NONE)
    """Absolute differences from the targets."""
    relative: Array = field(default_factory=NONE)
    """Their shares of the targets."""
    squared: Array = field(default_factory=NONE)
    zeros: Array = field(default_factory=NONE)
    """Targets that are 0."""
    mean: Array = field(default_factory=NONE)
    """Mean of the targets, and the sum of squared deviations from it."""
    spread: Array = field(default_factory=NONE)

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def of(cls, outputs: Array, targets: Array, names: Collection[str]) -> Sums:
        """Return what the metrics need of outputs and targets, both (rows, ...). Raises ValueError for other sizes."""
        width = math.prod(targets.shape[1:])
        wanted, guessed = (each.astype(float, copy=False).reshape(len(targets), width) for each in (targets, outputs))
        rest, found = guessed - wanted, {}
        if "mae" in names:
            found["absolute"] = np.abs(rest).sum(axis=0)
        if "mape" in names:
            found["relative"] = (np.abs(rest) / np.maximum(np.abs(wanted), EPSILON)).sum(axis=0)
            found["zeros"] = (wanted == 0).sum(axis=0)
        if "rmse" in names or "r2" in names:
            found["squared"] = np.square(rest).sum(axis=0)
        if "r2" in names and len(wanted):
            apart = wanted - wanted[0]  # exactly 0 where the targets do not vary
            mean = apart.mean(axis=0)
            found |= {"mean": wanted[0] + mean, "spread": np.square(apart - mean).sum(axis=0)}
        return cls(np.asarray(len(wanted)), **found)

    @np.errstate(over="ignore", invalid="ignore")
    def __add__(self, other: Sums) -> Sums:
        """Return the sums over two parts of a split together. Raises ValueError where they have other outputs."""
        if any(vars(self)[name].shape != column.shape for name, column in vars(other).items()):
            raise ValueError("the parts have different numbers of outputs")
        added = {name: np.asarray(column + vars(other)[name]) for name, column in vars(self).items()}
        apart, share = other.mean - self.mean, other.rows / added["rows"]
        added["mean"] = self.mean + apart * share
        added["spread"] += apart**2 * self.rows * share
        return Sums(**added)


def _explained(sums: Sums) -> Array:
    """Share of each output's variance: of one that does not vary 1 if always hit, else 0; NaN where none varies."""
    if not sums.spread.any():
        return np.asarray([math.nan])
    still = sums.spread == 0
    return np.where(still, sums.squared == 0, 1.0 - sums.squared / np.where(still, 1.0, sums.spread))


OF_SUMS: dict[str, Callable[[Sums], Array]] = {
    "mae": lambda sums: sums.absolute / sums.rows,
    "mape": lambda sums: sums.relative / sums.rows,
    "rmse": lambda sums: np.sqrt(sums.squared / sums.rows),
    "r2": _explained,
}
"""Value of each output, (outputs,)."""


def value_of(name: str, sums: Sums) -> float:
    """Return a metric, averaged over the outputs; NaN without rows."""
    found = OF_SUMS[name](sums) if sums.rows else NONE()
    return float(found.mean()) if found.size else math.nan


def problem_of(name: str, sums: Sums) -> str:
    """Return why a metric says nothing about these targets; empty where it does."""
    rows, zeros = int(sums.rows), int(sums.zeros.sum())
    if name == "mape" and zeros:
        return f"{zeros} of {rows * sums.zeros.size} targets are 0, and a share of 0 is infinite"
    if name != "r2" or sums.spread.any():
        return ""
    if sums.mean.size == 1:
        return f"all {rows} targets are {float(sums.mean[0]):g}, and r2 is a share of their variance"
    return f"none of the {sums.mean.size} outputs varies over {rows} rows, and r2 is a share of their variance"
