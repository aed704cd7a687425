"""Sums over a split from which metrics follow, in place of its outputs and targets, which can take gigabytes.

Counts of classes are whole numbers, so that a metric of them is the same however the split is cut. Sums of numbers may
differ from those of all outputs at once in the last digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainwright.trainer.metrics.built_in import Metric, array

OF_CLASSES = frozenset({"accuracy", "balanced_accuracy", "f1", "matthews_correlation", "mean_iou"})
OF_NUMBERS = frozenset({"mae", "mape", "rmse", "r2"})
Sums = dict[str, dict[str, Any]]
"""By kind (`classes`, `numbers`), of values that checkpoints store."""


def sums_of(metrics: Sequence[Metric], outputs: Any, targets: Any) -> Sums | None:
    """Return the sums that the metrics need of outputs and targets, (samples, ...); None where one needs all of them.

    Those are the user's own, and ranks (auc); and any of several labels for each sample.
    """
    from trainwright.trainer.clean_room.metrics import classes, has_labels

    names = {metric.name for metric in metrics if metric.of_outputs}
    if any(metric.user_defined for metric in metrics) or not names <= OF_CLASSES | OF_NUMBERS:
        return None
    ours, wanted = array(outputs), array(targets)
    if has_labels(ours, wanted) and names & OF_CLASSES:
        return None
    kinds, found = _kinds(), {}
    if names & OF_CLASSES:
        found["classes"] = _columns(kinds["classes"].of(classes(ours, wanted), wanted))
    if names & OF_NUMBERS:
        found["numbers"] = _columns(kinds["numbers"].of(ours, wanted, names))
    return found


def added(one: Sums, other: Sums) -> Sums:
    """Return the sums over two parts of a split together. Raises ValueError where these have other outputs."""
    return {kind: _columns(_read(kind, one) + _read(kind, other)) for kind in one}


def value_of(name: str, sums: Sums) -> float:
    """Return a built-in metric by its name."""
    from trainwright.trainer.clean_room import metrics, numbers

    if name in OF_CLASSES:
        return metrics.OF_COUNTS[name](_read("classes", sums))
    return numbers.value_of(name, _read("numbers", sums))


def problem_of(name: str, sums: Sums) -> str:
    """Return why a metric says nothing about the targets; empty where it does, or where only these could show it."""
    from trainwright.trainer.clean_room import numbers

    return numbers.problem_of(name, _read("numbers", sums)) if name in OF_NUMBERS else ""


def _kinds() -> dict[str, Any]:
    from trainwright.trainer.clean_room import metrics, numbers

    return {"classes": metrics.Counts, "numbers": numbers.Sums}


def _columns(sums: Any) -> dict[str, Any]:
    import torch

    return {name: torch.from_numpy(column) for name, column in vars(sums).items()}


def _read(kind: str, sums: Sums) -> Any:
    return _kinds()[kind](**{name: array(column) for name, column in sums[kind].items()})
