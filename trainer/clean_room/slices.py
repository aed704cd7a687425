"""Slices of the fixed rows, with a value, or in a range, in a column of an input or among the targets; and targets.

Of several targets each column by itself has the same metrics, and of classes each is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .comparison import Comparison, Kept
from .counts import Counts, classes
from .names import WORST
from .numbers import NAMES as NUMBERS
from .rows import Array, Split

MAX_GROUPS = 50
TESTS = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def report_slices(
    order: Mapping[str, Any], split: Split, compared: Sequence[Comparison], answer: dict[str, Any]
) -> None:
    """Put {rows, metrics} of every slice and group that the order names into `answer["slices"]`, by name.

    A slice that cannot be found among the rows has a `problem` in their place.
    """
    wanted = [*(order.get("slices") or []), *_of_groups(order.get("groups") or [], split)]
    if wanted:
        answer["slices"] = {one["name"]: _reported(one, split, compared) for one in wanted}


def report_targets(order: Mapping[str, Any], compared: Sequence[Comparison], answer: dict[str, Any]) -> None:
    """Put {name, metrics} of each of several targets, whose names the order has, into `answer["targets"]`.

    A metric of the worst target is there as the one that it is of, and of numbers the error in the target's own unit.
    """
    names, each = order.get("targets") or [], compared[0]
    if not names or len(compared) > 1 or Kept(each.targets).values.shape[1:] != (len(names),):
        return
    answer["targets"] = []
    wanted = [*each.metrics, *(["mae"] if any(name in NUMBERS for name in each.metrics) else [])]
    for column, target in enumerate(names):
        found = {name.removeprefix(WORST): _value(each, name, partial(_twice, column)) for name in wanted}
        kept = {name: value for name, value in found.items() if math.isfinite(value)}
        answer["targets"].append({"name": target, "metrics": kept})


def report_classes(compared: Sequence[Comparison], answer: dict[str, Any]) -> None:
    """Put {class, rows, found, said} of each class into `answer["classes"]`: its rows, and the predicted of it.

    Of rows with one class each, where a metric keeps the predicted ones; of many classes there is none.
    """
    each = compared[0]
    by_class = [name for name in each.metrics if name not in each.unfit and each.steps.get(name, ())[:1] == (classes,)]
    if len(compared) > 1 or not by_class:
        return
    predicted, targets = each.kept_for(by_class[0]).values, Kept(each.targets).values
    if predicted.ndim != 1 or predicted.shape != targets.shape:
        return
    found = Counts.of(predicted, targets)
    if len(found.names) <= MAX_GROUPS:
        lines = np.stack([found.names, found.wanted, found.hits, found.predicted], axis=1).tolist()
        answer["classes"] = [dict(zip(("class", "rows", "found", "said"), one, strict=True)) for one in lines]


def _twice(column: int, kept: Kept) -> Array:
    """Return a column two times, (rows, 2), of which every mean is its own: metrics tell labels by their number."""
    return np.asarray(kept.values[:, [column, column]])


def _value(each: Comparison, name: str, part: Callable[[Kept], Array]) -> float:
    """Return a metric of a part of what was kept; NaN where it has none."""
    if name not in each.steps or name in each.unfit:
        return math.nan
    try:
        return float(each.steps[name][1](part(each.kept_for(name)), part(Kept(each.targets))))
    except (ValueError, IndexError):
        return math.nan


def _reported(wanted: Mapping[str, Any], split: Split, compared: Sequence[Comparison]) -> dict[str, Any]:
    rows = rows_in(wanted, split)
    if isinstance(rows, str):
        return {"rows": 0, "metrics": {}, "problem": rows}
    return {"rows": len(rows), "metrics": dict(metrics_over(compared, rows))}


def rows_in(wanted: Mapping[str, Any], split: Split) -> Array | str:
    """Return the indices of a slice's rows, (chosen,), or why there is none.

    A slice has `tests` of columns, all of which hold in its rows, or the `places` of its rows in the split.
    """
    chosen = np.ones(split.rows, dtype=bool)
    if "places" in wanted:
        chosen &= np.isin(split.places, wanted["places"])
    for test in wanted.get("tests") or []:
        column = _column(test, split)
        if column is None:
            return f"the rows have no column {test['name']}"
        chosen &= TESTS[test["test"]](column, float(test["value"]))
    return np.flatnonzero(chosen) if chosen.any() else "no row is in it"


def _of_groups(groups: Sequence[Mapping[str, Any]], split: Split) -> Iterator[dict[str, Any]]:
    """Yield a slice for each value of a column: as named, else as the number reads."""
    for group in groups:
        column = _column(group, split)
        if column is None:
            yield {"name": group["name"], "tests": [{**group, "test": "=", "value": 0}]}
            continue
        names = group.get("values") or {}
        values, counts = np.unique(column[np.isfinite(column)], return_counts=True)
        for value in sorted(values[np.argsort(-counts, kind="stable")][:MAX_GROUPS].tolist()):
            name = f"{group['name']}={names.get(f'{value:g}', f'{value:g}')}"
            yield {"name": name, "tests": [{**group, "test": "=", "value": value}]}


def _column(test: Mapping[str, Any], split: Split) -> Array | None:
    """Return one number a row, (rows,): of a column of an input, or of the targets; None where there are none."""
    found = (
        split.target
        if test.get("of") == "target"
        else split.inputs.get(str(test.get("input") or next(iter(split.inputs))))
    )
    if found is None or found.shapes is not None:
        return None
    values = found.ordered.reshape(len(found), -1)
    place = int(test.get("column") or 0)
    if values.dtype.kind not in "biuf" or place >= values.shape[1]:
        return None
    return np.asarray(values[:, place], dtype=float)


def metrics_over(compared: Sequence[Comparison], rows: Array) -> Iterator[tuple[str, float]]:
    """Yield the metrics of outputs, and the loss, over the rows of these indices, (chosen,), where they are finite."""
    for each in compared:
        prefix = f"{each.name}_" if each.name else ""
        for name in each.metrics:
            found = _value(each, name, lambda kept: kept.at(rows))
            if math.isfinite(found):
                yield prefix + name, found
        loss = each.mean_loss(rows) if each.without_loss is None else math.nan
        if math.isfinite(loss):
            yield f"{prefix}loss", loss
