"""Figures from outputs and targets by scikit-learn: nothing here is the product's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from sklearn import metrics
from task import Array


def classes(outputs: Array, targets: Array) -> Array:
    """Return the class numbers that (samples, classes) scores say, or whether each label's score is above 0."""
    if outputs.shape == targets.shape or outputs.ndim == 1 or outputs.shape[1] == 1:
        return (outputs.reshape(targets.shape) > 0).astype(int)
    axis = -1 if outputs.shape[:-1] == targets.shape else 1
    return outputs.argmax(axis=axis)


def accuracy(outputs: Array, targets: Array) -> float:
    """Return the share of right classes; targets below 0 do not count."""
    counted = targets >= 0
    return float((classes(outputs, targets) == targets)[counted].mean())


def f1(outputs: Array, targets: Array) -> float:
    """Return the mean F1 over classes, or over labels."""
    return float(metrics.f1_score(targets, classes(outputs, targets), average="macro", zero_division=0.0))


def auc(outputs: Array, targets: Array) -> float:
    """Return the area under the ROC curve: of two classes, or the mean over labels."""
    two = outputs.ndim == 2 and outputs.shape[1] == 2 and targets.ndim == 1
    scores = outputs[:, 1] - outputs[:, 0] if two else outputs.reshape(targets.shape)
    return float(metrics.roc_auc_score(targets, scores))


def _of_numbers(function: Callable[[Array, Array], float]) -> Callable[[Array, Array], float]:
    return lambda outputs, targets: float(function(targets, outputs.reshape(targets.shape)))


FIGURES: Mapping[str, Callable[[Array, Array], float]] = {
    "accuracy": accuracy,
    "balanced_accuracy": lambda outputs, targets: float(
        metrics.balanced_accuracy_score(targets, classes(outputs, targets))
    ),
    "f1": f1,
    "auc": auc,
    "matthews_correlation": lambda outputs, targets: float(
        metrics.matthews_corrcoef(targets, classes(outputs, targets))
    ),
    "mae": _of_numbers(metrics.mean_absolute_error),
    "rmse": _of_numbers(metrics.root_mean_squared_error),
    "mape": _of_numbers(metrics.mean_absolute_percentage_error),
    "r2": _of_numbers(metrics.r2_score),
}
"""By the name of a metric. Targets first dimension samples; outputs are scores, or the numbers themselves."""
SAME = 1e-3
"""Share by which a figure may differ from another's: processors round otherwise."""


def is_same(one: float, two: float) -> bool:
    """Return whether two figures are one."""
    return bool(np.isclose(one, two, rtol=SAME, atol=1e-6))
