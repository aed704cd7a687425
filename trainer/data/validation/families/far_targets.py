"""Far targets: a few positive numbers, all about so many times what a model of the other rows expects.

A slipped decimal point, or cents among dollars, is a group of its own beside the rest: an empty stretch lies between.
The long tail of prices, incomes and counts has no such stretch, however far its largest values are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from trainwright.trainer.data.leaks.duplicates import is_key
from trainwright.trainer.data.leaks.power import inputs_of as numbers_of
from trainwright.trainer.data.leaks.table import LeakTable
from trainwright.trainer.data.validation.check import Context, Family
from trainwright.trainer.data.validation.families.leaks import frames_of, inputs_of, why
from trainwright.trainer.data.validation.report import MAX_ROWS, Verdict
from trainwright.trainer.data.validation.values import severity_of

MIN_ROWS = 100
MAX_READ = 6_000
TREES, FOLDS = 40, 3
ROUNDS, CLIPPED = 2, 3.0
"""Fits, the second to values that are at most so many standard deviations off: a far one pulls its neighbours along."""
MIN_KNOWN = 0.3
"""Share of the logarithms' spread that the cheap model takes away, below which it expects nothing in particular."""
FEWEST = 3
"""Rows of a group: one or two are a tail's end, whose last steps are the widest."""
MOST = 0.05
"""Of the rows: more are a kind of their own, which the model has no column for."""
TIMES = 4.0
"""Least factor between a group and what is expected of it."""
EMPTY, CHANCE, TAIL = 0.25, 0.01, 2.0
"""Least stretch without a row, of the group's own distance, in logarithms; more below few rows, so that a tail whose
frequency falls with this power of the distance has such a stretch there by this chance."""
SPREADS = 4.0
"""The same in standard deviations of what the model leaves."""


class FarTargets(Family):
    """Groups of targets that are a factor away from the rest."""

    name = "far_targets"

    def found(self, context: Context) -> Iterable[Verdict]:
        """Return the verdict on each target of the train split that is a positive number."""
        if context.task == "classification" or not context.targets or why(context):
            return
        for target in context.targets:
            if (verdict := self._of(context, target)) is not None:
                yield verdict

    def _of(self, context: Context, target: str) -> Verdict | None:
        table = LeakTable.of({"train": frames_of(context)["train"].head(MAX_READ)}, target)
        columns = [
            one
            for one in table.with_columns(inputs_of(context) or ()).columns
            if not is_key(one) and one.kind != "text"
        ]
        if table.target is None or table.target.is_classes or not columns:
            return None
        values = table.target.values
        if len(values) < MIN_ROWS or not (values > 0).all():
            return None
        chosen, factor = far_from_expected(numbers_of(columns), values)
        return self._verdict(context, target, table.places(chosen), factor, len(values))

    def _verdict(self, context: Context, target: str, rows: list[int], factor: float, read: int) -> Verdict:
        times = f"{factor:.2g} times" if factor >= 1.0 else f"a {1.0 / factor:.2g}th of"
        told = f"{len(rows)} of {read} train values of {target} are about {times} what a model of the other rows"
        told += " expects, and nearly none lies between" if rows else ""
        return Verdict(
            family=self.name,
            name="far_targets",
            column=target,
            split="train",
            severity=severity_of(context, "far_targets", "info"),
            passed=not rows,
            value=round(factor, 4),
            bound=TIMES,
            count=len(rows),
            rows=rows[:MAX_ROWS],
            text=told
            if rows
            else f"no group of values of {target} is a factor apart from what other rows tell of them",
            remedy="Look at the named rows and ask where they come from: a slipped decimal point or another unit is "
            "corrected in the file; where they are right they stay, and a column that says why they differ helps."
            if rows
            else "",
        )


def far_from_expected(
    inputs: np.ndarray[Any, Any], values: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], float]:
    """Return the places of the group that is farthest from what other rows tell, farthest first, and its factor.

    Args:
        inputs: (rows, columns) of numbers.
        values: (rows,), positive.

    Returns:
        No place and factor 1 where there is no such group, or the model knows too little.
    """
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.model_selection import KFold, cross_val_predict

    logs = np.log10(values)
    fitted, spread, off = logs, 0.0, np.zeros(len(logs))
    for _ in range(ROUNDS):
        model = ExtraTreesRegressor(TREES, min_samples_leaf=3, random_state=0)
        expected = cross_val_predict(model, inputs, fitted, cv=KFold(FOLDS, shuffle=True, random_state=0))
        off = logs - expected
        off -= np.median(off)
        spread = _spread(off)
        fitted = expected + np.clip(off, -CLIPPED * spread, CLIPPED * spread)
    groups = [_group(side * off, spread) for side in (1.0, -1.0)] if spread <= (1 - MIN_KNOWN) * _spread(logs) else []
    chosen = max(groups, key=len, default=np.zeros(0, dtype=np.int64))
    return chosen, float(10.0 ** np.median(off[chosen])) if len(chosen) else 1.0


def _group(off: np.ndarray[Any, Any], spread: float) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the places of the largest values, where the widest step below few of them is an empty stretch."""
    order = np.argsort(-off, kind="stable")
    ends = off[order[: int(MOST * len(off)) + 1]]
    steps = ends[FEWEST - 1 : -1] - ends[FEWEST:]
    if not len(steps):
        return order[:0]
    size = FEWEST + int(steps.argmax())
    nearest, stretch = ends[size - 1], steps.max()
    share = max(EMPTY, 1.0 - CHANCE ** (1.0 / (TAIL * size)))
    is_apart = nearest >= np.log10(TIMES) and stretch >= max(share * nearest, SPREADS * spread)
    return order[:size] if is_apart else order[:0]


def _spread(values: np.ndarray[Any, Any]) -> float:
    """Return the standard deviation by the median distance, which a few far values leave as it is."""
    return float(1.4826 * np.median(np.abs(values - np.median(values))))
