"""Predictive power: how much of the target a few columns say of rows that the predictor has not seen.

Power is 0 for a guess and 1 for certainty: of classes the mean recall beyond guessing, of numbers the share of
variance explained (not below 0). Five folds, the same for every column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.table import Column, Target

FOLDS = 5
LEAVES = 16
"""Of a shallow tree on one column."""
TREES = 40
DEVIATIONS = 5.0
"""Of the powers of shuffled values, above their mean."""
MAX_FITTED = 4000


def power_of(predicted: Array, target: Target, rows: Array | None = None) -> float:
    """Return the power of predictions, (rows,), of the same rows' targets."""
    truth = target.values if rows is None else target.values[rows]
    if target.classes is None:
        left = float(((truth - predicted) ** 2).sum())
        spread = float(((truth - truth.mean()) ** 2).sum())
        return max(0.0, 1.0 - left / spread) if spread > 0 else 0.0
    hits = predicted == truth
    recalls = [float(hits[truth == one].mean()) for one in np.unique(truth)]
    guess = 1.0 / max(len(recalls), 2)
    return max(0.0, (float(np.mean(recalls)) - guess) / (1.0 - guess))


def by_chance(power: Callable[[Array], float], values: Array, shuffles: int, rows: Any = slice(None)) -> float:
    """Return the power that chance does not reach, by that of values shuffled among some rows.

    Args:
        power: of values, (rows,).
    """
    generator = np.random.default_rng(0)
    powers = []
    for _ in range(shuffles):
        shuffled = values.copy()
        shuffled[rows] = generator.permutation(values[rows])
        powers.append(power(shuffled))
    return max(*powers, float(np.mean(powers) + DEVIATIONS * np.std(powers)))


def folds_of(target: Target, rows: int) -> Array:
    """Return the fold of each row, (rows,), classes dealt out evenly."""
    generator = np.random.default_rng(rows)
    order = generator.permutation(rows)
    if target.is_classes:
        order = order[np.argsort(target.values[order], kind="stable")]
    folds = np.empty(rows, dtype=np.int64)
    folds[order] = np.arange(rows) % FOLDS
    return folds


def predicted_alone(column: Column, target: Target) -> Array:
    """Return each row's target as one column tells it out of fold, (rows,)."""
    if column.is_numeric:
        return out_of_fold(inputs_of([column]), target, shallow=True)
    return by_value(column.codes, target)


def by_value(codes: Array, target: Target) -> Array:
    """Return each row's target as the rows of other folds with the same value have it, (rows,)."""
    rows = len(codes)
    folds = folds_of(target, rows)
    values, places = np.unique(codes, return_inverse=True)
    found = np.zeros(rows)
    for fold in range(FOLDS):
        fitted, asked = folds != fold, folds == fold
        sums = np.stack(
            [
                np.bincount(places[fitted], weights=one[fitted], minlength=len(values))
                for one in target.indicators.T
            ],
            axis=1,
        )  # fmt: skip
        found[asked] = _told(sums, np.bincount(places[fitted], minlength=len(values)), target, fitted)[places[asked]]
    return found


def _told(sums: Array, counts: Array, target: Target, fitted: Array) -> Array:
    """Return each value's target: its mean, or its class with the highest share relative to the class's size."""
    if target.classes is None:
        mean = target.values[fitted].mean()
        numbers: Array = np.where(counts > 0, sums[:, 0] / np.maximum(counts, 1), mean)
        return numbers
    sizes = np.maximum(target.indicators[fitted].sum(axis=0), 1)
    classes: Array = (sums / sizes).argmax(axis=1).astype(np.float64)
    return classes


def told_by(shares: Array, mean: Array, target: Target) -> Array:
    """Return targets, (rows,): the mean itself, or the class with the highest share relative to all rows'.

    Args:
        shares: means of the target's indicators over the rows that each row is told by, (rows, indicators).
        mean: of the indicators over all of them, (indicators,).
    """
    told: Array = shares[:, 0] if target.classes is None else (shares / np.maximum(mean, 1e-9)).argmax(axis=1)
    return told


def out_of_fold(inputs: Array, target: Target, *, shallow: bool = False) -> Array:
    """Return each row's target by trees that were not fitted on it, (rows,).

    Args:
        inputs: (rows, columns), finite.
        shallow: a single small tree, rather than many deep ones.
    """
    folds = folds_of(target, len(inputs))
    found = np.zeros(len(inputs))
    for fold in range(FOLDS):
        fitted = np.flatnonzero(folds != fold)[:MAX_FITTED]
        asked = folds == fold
        if len(np.unique(target.values[fitted])) < 2:
            found[asked] = target.values[fitted][0] if len(fitted) else 0
            continue
        tree = _tree(is_classes=target.is_classes, shallow=shallow)
        found[asked] = tree.fit(inputs[fitted], target.values[fitted]).predict(inputs[asked])
    return found


def _tree(*, is_classes: bool, shallow: bool) -> Any:
    from sklearn import ensemble, tree

    if is_classes:
        if shallow:
            return tree.DecisionTreeClassifier(
                max_leaf_nodes=LEAVES, min_samples_leaf=2, class_weight="balanced", random_state=0
            )
        return ensemble.ExtraTreesClassifier(TREES, min_samples_leaf=2, class_weight="balanced", random_state=0)
    if shallow:
        return tree.DecisionTreeRegressor(min_samples_leaf=3, random_state=0)
    return ensemble.ExtraTreesRegressor(TREES, min_samples_leaf=2, random_state=0)


def inputs_of(columns: Sequence[Column]) -> Array:
    """Return columns as numbers, (rows, numbers): missing ones far below all, categories by their numbers."""
    parts = []
    for column in columns:
        values = column.values.astype(np.float64)
        if column.is_numeric:
            there = values[~np.isnan(values)]
            low = float(there.min()) - 1.0 - 2.0 * float(np.ptp(there)) if len(there) else 0.0
            values = np.clip(np.where(np.isnan(values), low, values), -1e30, 1e30)
        parts.append(values)
    return np.column_stack(parts)
