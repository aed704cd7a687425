"""Gradient-boosted trees on a table: what a person would try first.

They are scikit-learn's (HistGradientBoosting, after LightGBM: Ke et al. 2017) with the data's seed, and are fed as a
person would feed them: columns of categories are declared, and of a skewed positive target the logarithm is learned
where that scores better on a fifth of the train rows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainwright.trainer.clean_room import metrics, numbers
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence.rivals.fitted import Array, Fitted, UnfitError, is_one_class, logits_of, targets_of
from trainwright.trainer.evidence.rivals.tables import category_codes
from trainwright.trainer.metrics import BUILT_IN
from trainwright.trainer.metrics.built_in import quantile_of

MOST_ROWS = 200_000
MOST_NUMBERS = 20_000_000
"""Of the train split."""
MOST_CLASSES = 50
MOST_TARGETS = 16
"""Predicted at once: each by trees of its own."""
MOST_ITERATIONS = 100
ITERATIONS_AT_ONCE = 10
MOST_SECONDS = 5.0
"""After which no further trees are added."""
SKEWED = 1.0
"""Skewness above which a positive target's logarithm is tried."""
TRIED_ITERATIONS = 30
TRIED_SHARE = 5
"""One of so many train rows decides."""
OF_MEANS = frozenset({"r2", "mse", "rmse"})
"""Metrics for which a mean is best: what the logarithm gives is a median, so it is corrected (Duan 1983)."""


def fit(splits: Splits, config: TrainingConfig) -> list[Fitted]:
    """Return trees for a table of at most so many rows; none for other data. Raises UnfitError.

    Inputs are the source's numbers before scaling, with NaN for a missing one.
    """
    train = splits.samples["train"]
    if splits.series is not None or type(train) is not TensorSamples or not _is_table(train):
        return []
    if len(train) > MOST_ROWS or len(train) * train.base[0].shape[1] > MOST_NUMBERS:
        raise UnfitError(f"more than {MOST_ROWS} rows, or {MOST_NUMBERS} numbers")
    targets = targets_of(train)
    is_classes = targets.dtype.kind in "iub" or splits.class_names is not None
    several = targets.size // len(targets)
    if several > MOST_TARGETS:
        raise UnfitError(f"more than {MOST_TARGETS} targets")
    if is_classes and several == 1 and len(np.unique(targets)) > MOST_CLASSES:
        raise UnfitError(f"more than {MOST_CLASSES} classes")
    trees = _Trees(splits, config, targets.shape[1:], is_classes, is_one_class(targets))
    trees.grow(train.column(0).numpy(force=True), targets.reshape(len(targets), several))
    usual = ("accuracy",) if is_classes else ("r2", "mae")
    return [Fitted("boosted_trees", trees.told, usual, lambda one: trees.outputs(one.column(0).numpy(force=True)))]


def _is_table(samples: TensorSamples) -> bool:
    return len(samples.base) == 2 and samples.base[0].dim() == 2 and samples.base[1].dim() <= 2


def is_skewed(target: Array) -> bool:
    """Return whether a target, (rows,), is positive and so skewed that a person would try its logarithm."""
    if target.min() <= 0 or not (deviation := target.std(dtype=np.float64)):
        return False
    return float((((target - target.mean(dtype=np.float64)) / deviation) ** 3).mean()) > SKEWED


@dataclass
class _Trees:
    splits: Splits
    config: TrainingConfig
    shape: tuple[int, ...]
    """Of one row's targets."""
    is_classes: bool
    is_numbered: bool
    """Whether targets are one class number, and no labels of yes or no."""
    each: list[Any] = field(default_factory=list)
    """Trees of each target."""
    factors: list[float | None] = field(default_factory=list)
    """By which the exponential of each target's prediction is corrected; None: no logarithm is learned."""
    known: dict[int, Array] = field(default_factory=dict)
    """Codes of each declared column of categories, by its place among the inputs."""
    iterations: int = 0

    def grow(self, inputs: Array, targets: Array) -> None:
        """Fit trees of each target, inputs (rows, inputs) and targets (rows, targets), within the time."""
        started = time.monotonic()
        self.known = category_codes(self.splits, inputs)
        rows = self._fed(inputs)
        logs = [not self.is_classes and is_skewed(target) and self._is_for_logs(rows, target) for target in targets.T]
        learned = [np.log(target) if is_log else target for target, is_log in zip(targets.T, logs, strict=True)]
        self.each = [self._untrained(0) for _ in learned]
        while self.iterations < MOST_ITERATIONS and (not self.iterations or time.monotonic() - started < MOST_SECONDS):
            self.iterations += ITERATIONS_AT_ONCE
            for one, target in zip(self.each, learned, strict=True):
                one.set_params(max_iter=self.iterations).fit(rows, target)
        self.factors = [
            self._factor(one, rows, target) if is_log else None
            for one, target, is_log in zip(self.each, learned, logs, strict=True)
        ]

    def _untrained(self, iterations: int) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind = HistGradientBoostingClassifier if self.is_classes else HistGradientBoostingRegressor
        level = None if self.is_classes else quantile_of(self.metric)
        of_quantile = {} if level is None else {"loss": "quantile", "quantile": level}
        categories = list(self.known) or None
        return kind(
            random_state=self.seed, early_stopping=False, warm_start=True, max_iter=iterations,
            categorical_features=categories, **of_quantile,
        )  # fmt: skip

    @property
    def seed(self) -> int:
        """Of the data."""
        return self.config.data.split.seed if self.config.data is not None else 0

    @property
    def metric(self) -> str:
        """Of numbers: by which epochs are selected, else the configuration's first one."""
        named = [self.config.selection.metric, *self.config.metrics, "mae"]
        return next(one for one in named if isinstance(one, str) and one in numbers.NAMES)

    def _is_for_logs(self, rows: Array, target: Array) -> bool:
        """Return whether the logarithm of a target, (rows,), scores better on some of the train rows."""
        metric = BUILT_IN[self.metric]
        held = np.random.default_rng(self.seed).permutation(len(rows)) % TRIED_SHARE == 0
        kept, wanted = rows[~held], target[held]
        plain, logs = (self._untrained(TRIED_ITERATIONS).fit(kept, one[~held]) for one in (target, np.log(target)))
        factor = self._factor(logs, kept, np.log(target[~held]))
        tried = (plain.predict(rows[held]), np.exp(logs.predict(rows[held])) * factor)
        one, other = (metrics.compute(self.metric, found, wanted) for found in tried)
        return bool(other < one if metric.minimize else other > one)

    def _factor(self, trees: Any, rows: Array, target: Array) -> float:
        """Return by what the exponential of predicted logarithms is corrected, by a target's logarithms, (rows,)."""
        return float(np.exp(target - trees.predict(rows)).mean()) if self.metric in OF_MEANS else 1.0

    def _fed(self, inputs: Array) -> Array:
        """Return inputs with categories numbered from 0; one that the train split lacks is a hole."""
        found = np.array(inputs, dtype=np.float64)
        for place, codes in self.known.items():
            at = np.searchsorted(codes, found[:, place]).clip(max=len(codes) - 1)
            found[:, place] = np.where(codes[at] == found[:, place], at, np.nan)
        return found

    @property
    def told(self) -> str:
        """What they are and how they were fed."""
        parts = [f"scikit-learn's, {self.iterations} iterations"]
        if self.known:
            parts.append(f"{len(self.known)} column{'s' * (len(self.known) > 1)} of categories declared")
        if any(factor is not None for factor in self.factors):
            parts.append("of the target's logarithm")
        return f"gradient-boosted trees ({', '.join(parts)})"

    def outputs(self, inputs: Array) -> Array:
        """Return logits of classes, margins of labels, or numbers, for inputs (rows, inputs)."""
        rows = self._fed(inputs)
        if not self.is_classes:
            found = [
                one.predict(rows) if factor is None else np.exp(one.predict(rows)) * factor
                for one, factor in zip(self.each, self.factors, strict=True)
            ]
            return np.stack(found, axis=1).reshape(len(rows), *self.shape)
        if self.is_numbered:
            (one,), names = self.each, self.splits.class_names or ()
            return logits_of(one.predict_proba(rows), one.classes_, len(names))
        each = [logits_of(one.predict_proba(rows), one.classes_, 2) for one in self.each]
        margins = np.stack([one[:, 1] - one[:, 0] for one in each], axis=1)  # by how much yes outweighs no
        return margins.reshape(len(rows), *self.shape)
