"""The logarithm of a positive, skewed target: rivals of a table learn it where that scores better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from trainwright.trainer.clean_room import metrics, numbers
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.evidence.rivals.fitted import Array
from trainwright.trainer.evidence.rivals.tables import seed_of
from trainwright.trainer.metrics import BUILT_IN

SKEWED = 1.0
"""Skewness above which it is tried."""
TRIED_SHARE = 5
"""One of so many train rows decides."""
OF_MEANS = frozenset({"r2", "mse", "rmse"})
"""Metrics for which a mean is best: what the logarithm gives is a median, so it is corrected (Duan 1983)."""


@dataclass
class OfLogarithms:
    """A regressor that learns the logarithm of its target, (rows,)."""

    regressor: Any
    metric: str
    """That is to be good."""
    factor: float = 1.0
    """By which the exponential is corrected."""
    told: ClassVar[str] = "of the target's logarithm"

    def fit(self, rows: Array, target: Array) -> Self:
        """Learn from inputs, (rows, inputs), and a positive target, (rows,)."""
        logs = np.log(target)
        self.regressor.fit(rows, logs)
        self.factor = float(np.exp(logs - self.regressor.predict(rows)).mean()) if self.metric in OF_MEANS else 1.0
        return self

    def predict(self, rows: Array) -> Array:
        """Return numbers of the target's own scale, (rows,)."""
        return np.asarray(np.exp(self.regressor.predict(rows)) * self.factor)


def metric_of(config: TrainingConfig) -> str:
    """Return the metric of numbers by which epochs are selected, else the configuration's first one."""
    named = [config.selection.metric, *config.metrics, "mae"]
    return next(one for one in named if isinstance(one, str) and one in numbers.NAMES)


def fitted(
    tried: Callable[[], Any], chosen: Callable[[Array], Any], rows: Array, target: Array, config: TrainingConfig
) -> Any:
    """Return a regressor of a target, fitted on it or on its logarithm, which is tried on some of the rows.

    Args:
        tried: makes what decides between both.
        chosen: makes what is returned, for what it is to learn, (rows,).
        rows: of the train split, (rows, inputs).
        target: (rows,).
        config: whose metric is compared.
    """
    metric = metric_of(config)
    if is_skewed(target) and _are_better(tried, rows, target, metric, seed_of(config)):
        return OfLogarithms(chosen(np.log(target)), metric).fit(rows, target)
    return chosen(target).fit(rows, target)


def _are_better(make: Callable[[], Any], rows: Array, target: Array, metric: str, seed: int) -> bool:
    held = np.random.default_rng(seed).permutation(len(rows)) % TRIED_SHARE == 0
    both = (make(), OfLogarithms(make(), metric))
    tried = (one.fit(rows[~held], target[~held]).predict(rows[held]) for one in both)
    plain, logs = (metrics.compute(metric, found, target[held]) for found in tried)
    return bool(logs < plain if BUILT_IN[metric].minimize else logs > plain)


def is_skewed(target: Array) -> bool:
    """Return whether a target, (rows,), is positive and so skewed that a person would try its logarithm."""
    if target.min() <= 0 or not (deviation := target.std(dtype=np.float64)):
        return False
    return float((((target - target.mean(dtype=np.float64)) / deviation) ** 3).mean()) > SKEWED
