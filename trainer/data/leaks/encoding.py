"""Target-encoded columns: each value is the mean target of the rows that have it, held-out rows included.

With smoothing the value is (sum + weight * mean) / (rows + weight) for one weight in all groups (Micci-Barreca 2001).
"""

from __future__ import annotations

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.finding import Finding
from trainwright.trainer.data.leaks.table import Column, LeakTable, Target

MIN_GROUPS = 4
ROWS_OF_GROUP = 2.0
EXACT = 1e-3
"""Largest difference, in deviations of the values, between a group's value and the formula's: rounding."""
LARGEST_WEIGHT = 1000.0
MAX_ALIKE = 12
"""Categories that may share a value."""
WEIGHTS = 3
FITS = 0.98
"""Share of the rows whose value the formula must give."""


def find(table: LeakTable) -> list[Finding]:
    """Return a finding for each column that was encoded by the targets of all rows."""
    target = table.target
    if target is None or len(table.rows) < table.total or not table.held_out.any():
        return []
    wanted = target.indicators
    classes = range(wanted.shape[1]) if target.classes is None or wanted.shape[1] > 2 else (1,)
    for_rows = np.ones(len(table.rows), dtype=bool)
    found = []
    for column in table.numeric():
        if column.distinct < MIN_GROUPS or (~column.missing).sum() < ROWS_OF_GROUP * column.distinct:
            continue
        answers = [*(wanted[:, one] for one in classes), target.values.astype(np.float64)]
        if any(_is_encoded(column, one, for_rows) and not _is_encoded(column, one, table.train) for one in answers):
            found.append(_finding(column, target))
    return found


def _is_encoded(column: Column, answers: Array, rows: Array) -> bool:
    """Return whether a column's values are the smoothed means of the answers of these rows."""
    there = rows & ~column.missing
    codes, answers = column.codes[there], answers[there]
    size = int(column.codes.max()) + 1
    counts = np.bincount(codes, minlength=size)
    sums = np.bincount(codes, weights=answers, minlength=size)
    held = np.flatnonzero(counts)
    if len(held) < MIN_GROUPS:
        return False
    values = np.zeros(size)
    values[codes] = column.values[there]
    values, counts, sums = values[held], counts[held], sums[held]
    mean, spread = float(answers.mean()), float(values.std())
    if spread <= 0:
        return False
    return any(
        counts[_fits(weight, values, counts, sums, mean) <= EXACT * spread].sum() >= FITS * counts.sum()
        for weight in (0.0, *_weights(values, counts, sums, mean))
    )


def _fits(weight: float, values: Array, counts: Array, sums: Array, mean: float) -> Array:
    """Return how far each value is from the formula; several categories of as many rows and targets share a value."""
    alike = np.arange(1, MAX_ALIKE + 1)[:, None]
    told = (sums / alike + weight * mean) / (counts / alike + weight)
    divides = (counts % alike) == 0
    found: Array = np.where(divides, np.abs(told - values), np.inf).min(axis=0)
    return found


def _weights(values: Array, counts: Array, sums: Array, mean: float) -> list[float]:
    """Return the weights of smoothing that most values agree on, each rounded."""
    apart = mean - values
    known = np.abs(apart) > 1e-9
    weights = np.round((sums - values * counts)[known] / -apart[known], 3)
    weights = weights[(weights > 0) & (weights <= LARGEST_WEIGHT)]
    each, often = np.unique(weights, return_counts=True)
    return [float(weight) for weight in each[np.argsort(-often)[:WEIGHTS]]]


def _finding(column: Column, target: Target) -> Finding:
    changes = {f"data.args.columns.{column.name}": "ignore"}
    return Finding(
        kind="preprocessing",
        column=column.name,
        severity="error",
        message=f"Column {column.name!r} holds the mean of {target.name!r} over all rows with its value, held-out rows "
        f"included ({column.distinct} values).",
        measured=float(column.distinct),
        bound=0.0,
        count=int((~column.missing).sum()),
        remedy=f"Give the category itself; or ignore the column: changes {changes}.",
        changes=changes,
    )
