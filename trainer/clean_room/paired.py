"""Two programs on the same rows: what a paired test needs, row by row, and intervals of the metrics' differences.

Classes give the table of McNemar's test (1947), losses the moments of the paired t-test; other metrics an interval of
the difference, by resampling the rows of both together (Efron 1979). Where rows are alike in groups there is no table,
which holds for independent rows alone, and the moments are of the groups (Liang & Zeger 1986).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .comparison import Comparison, Kept
from .counts import classes
from .intervals import MIN_UNITS, Resampling, bootstrap
from .rows import Array, Split
from .slices import metrics_over, rows_in


def report_paired(first: Comparison, second: Comparison, of: Resampling, at: Array | None = None) -> dict[str, Any]:
    """Return what differs between two comparisons on the same rows, first minus second.

    `classes`: rows that both, only one, or none predict rightly. `loss`: {mean, deviation, rows} of the differences,
    `rows` being how many units, rows or groups, are drawn. `intervals`: 95 %, by metric. Each only where it can be
    computed.

    Args:
        of: how all rows are drawn anew.
        at: indices of the rows to compare on, (chosen,); None: all.
    """
    rows, at = of.rows, np.arange(of.rows) if at is None else at
    drawn = Resampling(len(at), of.is_sample, None if of.groups is None else of.groups[at])
    found: dict[str, Any] = {"rows": len(at), "intervals": {}}
    right = _right(first, rows), _right(second, rows)
    if right[0] is not None and right[1] is not None and of.groups is None:
        found["classes"] = _table(right[0][at], right[1][at])
    losses = [_losses(one, rows) for one in (first, second)]
    if losses[0] is not None and losses[1] is not None:
        found |= moments_of((losses[0] - losses[1])[at], drawn)
    for name in first.metrics:
        ends = _interval(name, first, second, drawn, at)
        if ends is not None:
            found["intervals"][name] = list(ends)
    return found


def report_paired_slices(
    slices: Sequence[Mapping[str, Any]], split: Split, first: Comparison, second: Comparison
) -> dict[str, Any]:
    """Return `report_paired` of every slice with rows, and the metrics' `differences`, by name."""
    found = {}
    for one in slices:
        rows = rows_in(one, split)
        if isinstance(rows, str):
            continue
        values = [dict(metrics_over([each], rows)) for each in (first, second)]
        differences = {name: value - values[1][name] for name, value in values[0].items() if name in values[1]}
        paired = report_paired(first, second, split.resampling, rows)
        found[one["name"]] = paired | {"differences": differences}
    return found


def moments_of(difference: Array, of: Resampling) -> dict[str, Any]:
    """Return {loss: {mean, deviation, rows}} of differences, (rows,); empty where there are too few units."""
    units = of.units()
    count, mean = len(units), float(difference.mean())
    if count < (2 if of.groups is None else MIN_UNITS):
        return {}
    deviations = difference - mean
    sums = deviations if of.groups is None else np.array([deviations[one].sum() for one in units])
    scale = count / len(difference)  # 1 of rows; of groups, the deviation of a mean of as many equal ones
    deviation = scale * math.sqrt(float((sums**2).sum()) / (count - 1))
    return {"loss": {"mean": mean, "deviation": deviation, "rows": count}}


def _right(compared: Comparison, rows: int) -> Array | None:
    """Return whether each row's class is predicted, (rows,); None where a row has not one class."""
    kept = compared.kept.get(classes)
    if not kept or "accuracy" in compared.unfit:
        return None
    predicted, targets = Kept(kept).values.reshape(-1), Kept(compared.targets).values.reshape(-1)
    if len(predicted) != rows or len(targets) != rows:
        return None
    return np.asarray(predicted == targets)


def _table(first: Array, second: Array) -> dict[str, int]:
    return {
        "both": int((first & second).sum()),
        "only_first": int((first & ~second).sum()),
        "only_second": int((~first & second).sum()),
        "none": int((~first & ~second).sum()),
    }


def _losses(compared: Comparison, rows: int) -> Array | None:
    """Return the mean loss of each row, (rows,); None where it is not known by row."""
    if compared.without_loss is not None or not compared.sums:
        return None
    sums, counts = np.concatenate(compared.sums), np.concatenate(compared.counts)
    if sums.shape != (rows,) or not (counts > 0).all():
        return None
    return np.asarray(sums / counts, dtype=float)


def _interval(
    name: str, first: Comparison, second: Comparison, of: Resampling, rows: Array
) -> tuple[float, float] | None:
    """Return the interval of the difference of a metric over resamples of the rows at `rows`."""
    if name not in first.steps or name in first.unfit or name in second.unfit:
        return None
    value, targets = first.steps[name][1], Kept(first.targets)

    def difference(at: Array) -> float:
        wanted = targets.at(rows[at])
        return float(value(one.at(rows[at]), wanted)) - float(value(other.at(rows[at]), wanted))

    try:
        one, other = first.kept_for(name), second.kept_for(name)
        return bootstrap(difference, one.values.size + other.values.size, of)
    except (ValueError, IndexError):
        return None
