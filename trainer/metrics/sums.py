"""Sums over a split from which metrics follow, in place of its outputs and targets, which can take gigabytes.

Counts of classes are whole numbers, so that a metric of them is the same however the split is cut. Means and squares of
numbers are merged as Chan, Golub and LeVeque 1983 do (10.1080/00031305.1983.10483115); they may differ from those of
all outputs at once in the last digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainwright.trainer.metrics.built_in import Metric, array

if TYPE_CHECKING:
    import numpy as np

    from trainwright.trainer.clean_room.metrics import Counts

    Array = np.ndarray[Any, Any]

OF_CLASSES = frozenset({"accuracy", "balanced_accuracy", "f1", "matthews_correlation", "mean_iou"})
OF_NUMBERS = frozenset({"mae", "r2"})
Sums = dict[str, dict[str, Any]]
"""By kind (`classes`, `numbers`), of values that checkpoints store."""


def sums_of(metrics: Sequence[Metric], outputs: Any, targets: Any) -> Sums | None:
    """Return the sums that the metrics need of outputs and targets, (samples, ...); None where one needs all of them.

    Those are the user's own, and ranks (auc); and any of several labels for each sample.
    """
    from trainwright.trainer.clean_room.metrics import has_labels

    names = {metric.name for metric in metrics if metric.of_outputs}
    if any(metric.user_defined for metric in metrics) or not names <= OF_CLASSES | OF_NUMBERS:
        return None
    ours, wanted = array(outputs), array(targets)
    if has_labels(ours, wanted) and names & OF_CLASSES:
        return None
    found: Sums = {}
    if names & OF_CLASSES:
        found["classes"] = _of_classes(ours, wanted)
    if names & OF_NUMBERS:
        found["numbers"] = _of_numbers(ours, wanted)
    return found


def added(one: Sums, other: Sums) -> Sums:
    """Return the sums over two parts of a split together."""
    merge = {"classes": _added_classes, "numbers": _added_numbers}
    return {kind: merge[kind](one[kind], other[kind]) for kind in one}


def value_of(name: str, sums: Sums) -> float:
    """Return a built-in metric by its name."""
    from trainwright.trainer.clean_room import metrics

    if name in OF_CLASSES:
        return metrics.OF_COUNTS[name](_counts(sums["classes"]))
    numbers = sums["numbers"]
    if name == "mae":
        return float(numbers["absolute"] / numbers["count"]) if numbers["count"] else math.nan
    return float(1.0 - numbers["squared"] / numbers["spread"]) if numbers["spread"] > 0 else math.nan


def _of_classes(outputs: Array, targets: Array) -> dict[str, Any]:
    from trainwright.trainer.clean_room.metrics import Counts, classes

    return _columns(Counts.of(classes(outputs, targets), targets))


def _added_classes(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return _columns(_counts(one) + _counts(other))


def _columns(counts: Counts) -> dict[str, Any]:
    import torch

    return {name: torch.from_numpy(column) for name, column in vars(counts).items()}


def _counts(columns: Mapping[str, Any]) -> Counts:
    from trainwright.trainer.clean_room.metrics import Counts

    return Counts(**{name: array(column) for name, column in columns.items()})


def _of_numbers(outputs: Array, targets: Array) -> dict[str, Any]:
    import numpy as np

    wanted = targets.astype(float, copy=False)
    rest = outputs.astype(float, copy=False).reshape(targets.shape) - wanted
    mean = float(wanted.mean())
    return {
        "count": wanted.size,
        "absolute": float(np.abs(rest).sum()),
        "squared": float(np.square(rest).sum()),
        "mean": mean,
        "spread": float(np.square(wanted - mean).sum()),
    }


def _added_numbers(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    count, apart = one["count"] + other["count"], other["mean"] - one["mean"]
    return {
        **{name: one[name] + other[name] for name in ("count", "absolute", "squared")},
        "mean": one["mean"] + apart * other["count"] / count,
        "spread": one["spread"] + other["spread"] + apart**2 * one["count"] * other["count"] / count,
    }
