"""Metrics of numbers: each of every output by itself, then their plain mean, as scikit-learn's `uniform_average`.

A `worst_` one takes the worst output's in place of the mean: for a goal that each of several targets is to reach.

Each number of a sample's target is an output. Most follow from sums over the rows, which merge as in Chan, Golub and
LeVeque 1983 (10.1080/00031305.1983.10483115); smape: Makridakis 1993, of the mean of both sides, so 2 at most; mase:
Hyndman and Koehler 2006 (10.1016/j.ijforecast.2006.03.001).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from .counts import mean
from .names import LEVELS, WORST
from .ranks import concordance, spearman

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
    symmetric: Array = field(default_factory=NONE)
    """Their shares of the mean of output and target, without signs."""
    squared: Array = field(default_factory=NONE)
    logarithmic: Array = field(default_factory=NONE)
    """Squared differences of the logarithms of 1 + output and 1 + target."""
    zeros: Array = field(default_factory=NONE)
    """Targets that are 0."""
    low: Array = field(default_factory=NONE)
    """Targets that are -1 or less."""
    mean: Array = field(default_factory=NONE)
    """Mean of the targets, and the sum of squared deviations from it."""
    spread: Array = field(default_factory=NONE)
    output_mean: Array = field(default_factory=NONE)
    output_spread: Array = field(default_factory=NONE)
    joint: Array = field(default_factory=NONE)
    """Sum of the products of both sides' deviations."""

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def of(cls, outputs: Array, targets: Array, names: Collection[str]) -> Sums:
        """Return what the metrics need of outputs and targets, both (rows, ...). Raises ValueError for other sizes."""
        guessed, wanted = by_output(outputs, targets)
        names = {name.removeprefix(WORST) for name in names}
        of_rows = {name: column for name, (users, column) in ADDED.items() if not users.isdisjoint(names)}
        found = {name: column(guessed, wanted).sum(axis=0) for name, column in of_rows.items()}
        if len(wanted) and not OF_VARYING.isdisjoint(names):
            found["mean"], from_mean = _moments(wanted)
            found["spread"] = np.square(from_mean).sum(axis=0)
            if not {"explained_variance", "pearson"}.isdisjoint(names):
                found["output_mean"], ours = _moments(guessed)
                found |= {"output_spread": np.square(ours).sum(axis=0), "joint": (ours * from_mean).sum(axis=0)}
        return cls(np.asarray(len(wanted)), **found)

    @np.errstate(over="ignore", invalid="ignore")
    def __add__(self, other: Sums) -> Sums:
        """Return the sums over two parts of a split together. Raises ValueError where they have other outputs."""
        if any(vars(self)[name].shape != column.shape for name, column in vars(other).items()):
            raise ValueError("the parts have different numbers of outputs")
        added = {name: np.asarray(column + vars(other)[name]) for name, column in vars(self).items()}
        share = other.rows / added["rows"]
        apart, ours = other.mean - self.mean, other.output_mean - self.output_mean
        added |= {"mean": self.mean + apart * share, "output_mean": self.output_mean + ours * share}
        added["spread"] += apart**2 * self.rows * share
        added["output_spread"] += ours**2 * self.rows * share
        added["joint"] += (ours * apart if ours.size else ours) * self.rows * share
        return Sums(**added)


def by_output(outputs: Array, targets: Array) -> tuple[Array, Array]:
    """Return outputs and targets as (rows, outputs) of float. Raises ValueError for other sizes."""
    width = math.prod(targets.shape[1:])
    guessed, wanted = (each.astype(float, copy=False).reshape(len(targets), width) for each in (outputs, targets))
    return guessed, wanted


def _moments(numbers: Array) -> tuple[Array, Array]:
    """Return the means, (outputs,), and the deviations from them: exactly 0 where numbers do not vary."""
    apart = numbers - numbers[0]
    mean = apart.mean(axis=0)
    return numbers[0] + mean, apart - mean


def pinball(guessed: Array, wanted: Array, level: float) -> Array:
    """Return the pinball loss of each number at a quantile (Koenker and Bassett 1978, 10.2307/1913643)."""
    missing = wanted - guessed
    return np.maximum(level * missing, (level - 1.0) * missing)


@dataclass(frozen=True)
class Scaled:
    """Absolute errors of forecasts by those of the value one season before, whose mean is mase: below 1 is better."""

    naive_errors: tuple[float, ...]
    """Its mean absolute error on the train rows, of each target: one of all series together."""

    def __call__(self, outputs: Array, targets: Array) -> Array:
        """Return errors of outputs and targets, (rows, horizon * targets). Raises ValueError for other sizes."""
        guessed, wanted = by_output(outputs, targets)
        ahead, rest = divmod(wanted.shape[1], len(self.naive_errors))
        if rest:
            raise ValueError(f"{wanted.shape[1]} numbers a row are no horizon of {len(self.naive_errors)} targets")
        with np.errstate(divide="ignore", invalid="ignore"):  # of a series that repeats itself exactly nothing is said
            return np.asarray(np.abs(guessed - wanted) / np.tile(self.naive_errors, ahead))


def _mean_pinball(level: float, guessed: Array, wanted: Array) -> float:
    return float(pinball(guessed, wanted, level).mean())


def _coverage_error(level: float, guessed: Array, wanted: Array) -> float:
    return abs(float((wanted <= guessed).mean()) - level)


def _symmetric(guessed: Array, wanted: Array) -> Array:
    middles = (np.abs(guessed) + np.abs(wanted)) / 2.0
    return np.asarray(np.abs(guessed - wanted) / np.where(middles == 0, 1.0, middles))


def _logarithmic(guessed: Array, wanted: Array) -> Array:
    ours, theirs = (np.log1p(np.maximum(each, EPSILON - 1.0)) for each in (guessed, wanted))
    return np.asarray(np.square(ours - theirs))


ADDED: dict[str, tuple[set[str], Callable[[Array, Array], Array]]] = {
    "absolute": ({"mae"}, lambda guessed, wanted: np.abs(guessed - wanted)),
    "relative": ({"mape"}, lambda guessed, wanted: np.abs(guessed - wanted) / np.maximum(np.abs(wanted), EPSILON)),
    "symmetric": ({"smape"}, _symmetric),
    "squared": ({"mse", "rmse", "r2"}, lambda guessed, wanted: np.square(guessed - wanted)),
    "logarithmic": ({"rmsle"}, _logarithmic),
    "zeros": ({"mape"}, lambda _, wanted: wanted == 0),
    "low": ({"rmsle"}, lambda _, wanted: wanted <= -1),
}
"""Columns of `Sums` that are plain sums over rows: the metrics that need one, and what is added up, (rows, outputs)."""


def _explained(rest: Array, spread: Array) -> Array:
    """Share of each output's variance: of one that does not vary 1 if always hit, else 0; NaN where none varies."""
    if not spread.any():
        return np.asarray([math.nan])
    still = spread == 0
    return np.where(still, rest == 0, 1.0 - rest / np.where(still, 1.0, spread))


def _correlations(sums: Sums) -> Array:
    """Of each output that varies: 0 where the answer is always the same; NaN where none varies."""
    varies = sums.spread > 0
    scales = np.sqrt(sums.spread[varies]) * np.sqrt(sums.output_spread[varies])
    found = np.where(scales == 0, 0.0, sums.joint[varies] / np.where(scales == 0, 1.0, scales))
    return found if varies.any() else np.asarray([math.nan])


OF_SUMS: dict[str, Callable[[Sums], Array]] = {
    "mae": lambda sums: sums.absolute / sums.rows,
    "mape": lambda sums: sums.relative / sums.rows,
    "smape": lambda sums: sums.symmetric / sums.rows,
    "mse": lambda sums: sums.squared / sums.rows,
    "rmse": lambda sums: np.sqrt(sums.squared / sums.rows),
    "rmsle": lambda sums: np.sqrt(sums.logarithmic / sums.rows),
    "r2": lambda sums: _explained(sums.squared, sums.spread),
    "explained_variance": lambda sums: _explained(
        np.maximum(sums.spread + sums.output_spread - 2.0 * sums.joint, 0.0), sums.spread
    ),
    "pearson": _correlations,
}
"""Value of each output, (outputs,)."""
OF_SUMS |= {f"{WORST}{name}": OF_SUMS[name] for name in ("r2", "mape", "mae", "rmse")}
OF_ROWS: dict[str, Callable[[Array, Array], float]] = {
    "median_absolute_error": lambda guessed, wanted: float(np.median(np.abs(guessed - wanted))),
    "spearman": spearman,
    "concordance": concordance,
    **{f"pinball_{level}": partial(_mean_pinball, level / 100) for level in LEVELS},
    **{f"coverage_error_{level}": partial(_coverage_error, level / 100) for level in LEVELS},
}
"""Value of one output from all its rows, of what was predicted and the targets."""
NAMES = (*OF_SUMS, *OF_ROWS)
OF_VARYING = frozenset({"r2", "explained_variance", "pearson", "spearman", "concordance"})
"""Metrics that say nothing of an output whose targets do not vary."""


def compute(name: str, outputs: Array, targets: Array) -> float:
    """Return a metric of outputs and targets, both (rows, ...). Raises ValueError for other sizes."""
    if name in OF_SUMS:
        return value_of(name, Sums.of(outputs, targets, {name}))
    guessed, wanted = by_output(outputs, targets)
    if not len(wanted) or np.isnan(guessed).any():
        return math.nan
    said = (wanted != wanted[0]).any(axis=0) | (name not in OF_VARYING)
    return mean(OF_ROWS[name](*one) for one in zip(guessed.T[said], wanted.T[said], strict=True))


def value_of(name: str, sums: Sums) -> float:
    """Return a metric, averaged over the outputs, or the worst one's; NaN without rows."""
    found = OF_SUMS[name](sums) if sums.rows else NONE()
    over = np.mean if not name.startswith(WORST) else np.min if name.endswith("r2") else np.max
    return float(over(found)) if found.size else math.nan


def problem_of(name: str, sums: Sums) -> str:
    """Return why a metric says nothing about these targets; empty where it does."""
    name = name.removeprefix(WORST)
    rows, zeros, low = int(sums.rows), int(sums.zeros.sum()), int(sums.low.sum())
    if name == "mape" and zeros:
        return f"{zeros} of {rows * sums.zeros.size} targets are 0, and a share of 0 is infinite"
    if name == "rmsle" and low:
        return f"{low} of {rows * sums.low.size} targets are -1 or less, and 1 + these have no logarithm"
    if name not in OF_VARYING or sums.spread.any():
        return ""
    if sums.mean.size == 1:
        return f"all {rows} targets are {float(sums.mean[0]):g}, and {name} is of how they vary"
    return f"none of the {sums.mean.size} outputs varies over {rows} rows, and {name} is of how they vary"
