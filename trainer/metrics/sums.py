"""Sums over a split from which metrics follow, in place of its outputs and targets, which can take gigabytes.

Counts of classes are whole numbers, so that a metric of them is the same however the split is cut. Sums of numbers may
differ from those of all outputs at once in the last digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainwright.trainer.metrics.built_in import Metric, array

Sums = dict[str, dict[str, Any]]
"""By kind (`classes`, `numbers`, or a metric that is a mean), of values that checkpoints store."""


def sums_of(metrics: Sequence[Metric], outputs: Any, targets: Any) -> Sums | None:
    """Return the sums that the metrics need of outputs and targets, (samples, ...); None where one needs all of them.

    Those are the user's own, those of ranks, bins and medians; and counts of several labels for each sample.
    """
    from trainwright.trainer.clean_room import counts, numbers
    from trainwright.trainer.clean_room import metrics as known

    names = {metric.name for metric in metrics if metric.of_outputs}
    of_classes, of_numbers = names & counts.OF_COUNTS.keys(), names & numbers.OF_SUMS.keys()
    means = known.OF_MEANS | known.means_of_series(next((one.naive_errors for one in metrics if one.naive_errors), ()))
    of_means = names & means.keys()
    if any(metric.user_defined for metric in metrics) or names - of_classes - of_numbers - of_means:
        return None
    ours, wanted = array(outputs), array(targets)
    if counts.has_labels(ours, wanted) and of_classes:
        return None
    steps = {name: means[name] for name in of_means}
    found = {name: _columns(counts.Mean.of(part(keep(ours, wanted), wanted))) for name, (keep, part) in steps.items()}
    if of_classes:
        found["classes"] = _columns(counts.Counts.of(counts.classes(ours, wanted), wanted))
    if of_numbers:
        found["numbers"] = _columns(numbers.Sums.of(ours, wanted, names))
    return found


def added(one: Sums, other: Sums) -> Sums:
    """Return the sums over two parts of a split together. Raises ValueError where these have other outputs."""
    return {kind: _columns(_read(kind, one) + _read(kind, other)) for kind in one}


def value_of(name: str, sums: Sums) -> float:
    """Return a built-in metric by its name."""
    from trainwright.trainer.clean_room import counts, numbers

    if name in counts.OF_COUNTS:
        return counts.OF_COUNTS[name](_read("classes", sums))
    if name in sums:
        return float(_read(name, sums).value)
    return numbers.value_of(name, _read("numbers", sums))


def problem_of(name: str, sums: Sums) -> str:
    """Return why a metric says nothing about the targets; empty where it does, or where only these could show it."""
    from trainwright.trainer.clean_room import numbers

    return numbers.problem_of(name, _read("numbers", sums)) if name in numbers.OF_SUMS else ""


def _columns(sums: Any) -> dict[str, Any]:
    import torch

    return {name: torch.from_numpy(column) for name, column in vars(sums).items()}


def _read(kind: str, sums: Sums) -> Any:
    from trainwright.trainer.clean_room import counts, numbers

    kinds = {"classes": counts.Counts, "numbers": numbers.Sums}
    return kinds.get(kind, counts.Mean)(**{name: array(column) for name, column in sums[kind].items()})
