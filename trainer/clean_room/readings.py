"""Usual other readings of a metric's name: what somebody else's figure under the same name may be.

Most are other built-in metrics, and have their names; the others as scikit-learn's `average` has them (Pedregosa et al.
2011). They explain a reported figure, and decide nothing: what is certified is the metric.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from . import metrics, ranks
from .counts import IGNORED, OF_ONE_CLASS, Array, Counts, has_labels, of_classes, of_labels

Values = dict[str, float]
OF_CLASS_0 = "that of class 0 alone"
Reading = Callable[[Any, Any], Values]
NO_SHARES = frozenset({"mae", "mse", "rmse", "mase", "median_absolute_error", "rmsle", "log_loss", "brier"})
"""Metrics of which nobody writes a hundredfold for percent."""
AVERAGES = ("binary", "macro", "weighted", "micro")
ALIKE = (
    ("accuracy", "balanced_accuracy"),
    ("f1", "f1_binary", "f1_weighted", "f1_micro", "dice"),
    tuple(f"precision_{of}" for of in AVERAGES),
    (*(f"recall_{of}" for of in AVERAGES), "balanced_accuracy"),
    ("mean_iou", "foreground_iou"),
    ("auc", "average_precision"),
    ("cohen_kappa", "quadratic_kappa"),
    ("mae", "median_absolute_error"),
    ("mse", "rmse"),
    ("pearson", "spearman"),
)
"""Metrics that one word means, each of what the others keep of the outputs."""


def readings(name: str, kept: Array, targets: Array, value: float) -> Values:
    """Return the values that may be meant by a metric's name, by what they are; none where none is usual or computable.

    Args:
        name: the metric.
        kept: what it keeps of the outputs (metrics.OF_OUTPUTS).
        targets: (samples, ...).
        value: the metric's own.
    """
    others = dict.fromkeys(other for alike in ALIKE if name in alike for other in alike if other != name)
    found: Values = {}
    steps: list[Reading] = [partial(_metric, other) for other in others]
    for step in (*steps, *OTHERS.get(name, ())):
        try:
            found |= step(kept, targets)
        except (ArithmeticError, LookupError, TypeError, ValueError):  # outputs that the other meaning does not take
            continue
    return {**found, **({} if name in NO_SHARES else {"the same in percent": 100.0 * value})}


def _metric(name: str, kept: Array, targets: Array) -> Values:
    return {name: float(metrics.OF_OUTPUTS[name][1](kept, targets))}


def _of_class_0(name: str, predicted: Array, targets: Array) -> Values:
    """Return a metric of class 1 with both classes changed round."""
    if of_labels(predicted, targets) or max(predicted.max(), targets.max()) > 1:
        return {}
    turned = np.where(targets == IGNORED, IGNORED, 1 - targets)
    return {OF_CLASS_0: of_classes(name, 1 - predicted, turned)}


def _f1_of_rows(predicted: Array, targets: Array) -> Values:
    if not of_labels(predicted, targets):
        return {}
    both, sizes = 2.0 * (predicted & (targets > 0)), predicted.astype(int) + (targets > 0)
    return {"the mean over rows": float((both.sum(axis=1) / np.maximum(sizes.sum(axis=1), 1)).mean())}


def _whole_rows(predicted: Array, targets: Array) -> Values:
    if not of_labels(predicted, targets):
        return {}
    return {"the share of rows with every label right": float((predicted == (targets > 0)).all(axis=1).mean())}


def _area_of_decided(ranked: Array, targets: Array) -> Values:
    if has_labels(ranked, targets) or ranked.size != targets.size:
        return {}
    decided = (ranked.reshape(-1) > 0).astype(float)
    return {"the area of decided classes in place of scores": ranks.auc(decided, targets)}


def _weighted_iou(predicted: Array, targets: Array) -> Values:
    counts = Counts.of(predicted, targets)
    shares = counts.hits / (counts.predicted + counts.wanted - counts.hits)
    return {"the mean weighted by the classes' rows": float(np.average(shares, weights=counts.wanted))}


OTHERS: dict[str, tuple[Reading, ...]] = {
    **{name: (partial(_of_class_0, name),) for name in OF_ONE_CLASS},
    "accuracy": (_whole_rows,),
    "f1": (partial(_of_class_0, "f1_binary"), _f1_of_rows),
    "auc": (_area_of_decided,),
    "mean_iou": (partial(_of_class_0, "foreground_iou"), _weighted_iou),
}
"""Readings that are no built-in metric."""
