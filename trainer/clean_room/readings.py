"""Usual other readings of a metric's name: what somebody else's figure under the same name may be.

Averages as scikit-learn's `average` has them (Pedregosa et al. 2011). They explain a reported figure, and decide
nothing: what is certified is the metric.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import metrics
from .metrics import Array, Counts

Values = dict[str, float]
PERCENT = frozenset({"accuracy", "balanced_accuracy", "f1", "auc", "mean_iou", "mape"})


def readings(name: str, kept: Array, targets: Array, value: float) -> Values:
    """Return the values that may be meant by a metric's name, by what they are; none where none is usual or computable.

    Args:
        name: the metric.
        kept: what it keeps of the outputs (metrics.OF_OUTPUTS).
        targets: (samples, ...).
        value: the metric's own.
    """
    try:
        found = OTHERS[name](kept, targets) if name in OTHERS else {}
    except (
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
    ):  # outputs of a kind that the other meaning does not take
        found = {}
    if name == "rmse":
        found = {"the mean squared error": value**2} if targets.size == len(targets) else {}
    return {**found, **({"the same in percent": 100.0 * value} if name in PERCENT else {})}


def _by_class(shares: Array, counts: Counts) -> Values:
    """Return a share (classes,) of either of two classes alone, and its means without the first class and by rows."""
    alone = zip(counts.names.tolist(), shares.tolist(), strict=True) if len(shares) == 2 else ()
    found = {f"that of class {number} alone": share for number, share in alone}
    if len(shares) > 2 and counts.names[0] == 0:
        found["the mean without class 0"] = float(shares[1:].mean())
    return {**found, "the mean weighted by the classes' rows": float(np.average(shares, weights=counts.wanted))}


def _f1(predicted: Array, targets: Array) -> Values:
    if metrics.of_labels(predicted, targets):
        both, sizes = 2.0 * (predicted & (targets > 0)), predicted.astype(int) + (targets > 0)
        of_rows = both.sum(axis=1) / np.maximum(sizes.sum(axis=1), 1)
        return {
            "that of all labels together (micro)": float(both.sum() / max(sizes.sum(), 1)),
            "the mean over rows": float(of_rows.mean()),
        }
    counts = Counts.of(predicted, targets)
    micro = {"the share of right rows (micro)": metrics.accuracy(predicted, targets)}
    return _by_class(2.0 * counts.hits / (counts.predicted + counts.wanted), counts) | micro


def _accuracy(predicted: Array, targets: Array) -> Values:
    if metrics.of_labels(predicted, targets):
        return {"the share of rows with every label right": float((predicted == (targets > 0)).all(axis=1).mean())}
    return {"the balanced accuracy": metrics.balanced_accuracy(predicted, targets)}


def _balanced_accuracy(predicted: Array, targets: Array) -> Values:
    if metrics.of_labels(predicted, targets):
        return {}
    return {"the share of right rows": metrics.accuracy(predicted, targets)}


def _auc(ranked: Array, targets: Array) -> Values:
    if metrics.has_labels(ranked, targets) or ranked.size != targets.size:
        return {}
    decided, positive = (ranked.reshape(-1) > 0).astype(float), targets.reshape(-1) > 0
    order = np.argsort(-ranked.reshape(-1).astype(float), kind="stable")
    precision = np.cumsum(positive[order]) / np.arange(1, len(order) + 1)
    return {
        "the area of decided classes in place of scores": metrics.auc(decided, targets),
        "the average precision": float(precision[positive[order]].mean()) if positive.any() else float("nan"),
    }


def _mean_iou(predicted: Array, targets: Array) -> Values:
    counts = Counts.of(predicted, targets)
    return _by_class(counts.hits / (counts.predicted + counts.wanted - counts.hits), counts)


def _mae(outputs: Array, targets: Array) -> Values:
    return {"the median of the absolute errors": float(np.median(np.abs(outputs - targets)))}


OTHERS: dict[str, Callable[[Any, Any], Values]] = {
    "accuracy": _accuracy, "balanced_accuracy": _balanced_accuracy, "f1": _f1, "auc": _auc, "mean_iou": _mean_iou,
    "mae": _mae,
}  # fmt: skip
