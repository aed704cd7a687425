"""Preprocessing fitted on everything: columns that are exactly standardised, scaled or filled over all rows.

What was fitted on the train rows alone is exact over these, and not over all rows.
"""

from __future__ import annotations

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.finding import MAX_ROWS_NAMED, Finding
from trainwright.trainer.data.leaks.table import Column, LeakTable

EXACT = 2e-4
"""Difference of a mean from 0 and a deviation from 1 that rounding explains."""
CENTRED = 1e-7
"""The same of a mean alone."""
SYMMETRIC = 0.02
"""Distance of each value from another one's negative, in deviations: then the mean is 0 by nature, as a sine's is."""
MIN_COLUMNS = 2
"""Of scaled ones: a single column from 0 to 1 is a share."""
FILLED_SHARE = 0.02
FILLED_TIMES = {"mean": 1.0, "median": 4.0}
"""How many times as often as the next value the filled one appears: a median may be any row's value."""
FILL_DIGITS = 1e-5
MIN_ROWS = 30


def find(table: LeakTable) -> list[Finding]:
    """Return the findings of standardised or scaled columns, and of filled ones."""
    if len(table.rows) < MIN_ROWS or len(table.rows) < table.total or not table.held_out.any():
        return []
    continuous = [column for column in table.numeric() if column.is_continuous]
    standardised = [column for column in continuous if _is_standardised(column, table.train)]
    scaled = [column for column in continuous if _is_scaled(column)]
    found = []
    if standardised:
        found.append(_of_scaling(standardised, "standardised (mean 0, deviation 1)"))
    if len(scaled) >= max(MIN_COLUMNS, len(continuous) / 2) and any(not _reaches(one, table.train) for one in scaled):
        found.append(_of_scaling(scaled, "scaled to 0…1"))
    return found + [one for column in table.numeric() if (one := _filled(column, table)) is not None]


def _is_standardised(column: Column, train: Array) -> bool:
    return _is_unit(column.values[~column.missing]) and not _is_unit(column.values[train & ~column.missing])


def _is_unit(values: Array) -> bool:
    if len(values) < 2:
        return False
    mean, deviations = float(values.mean()), (float(values.std()), float(values.std(ddof=1)))
    if deviations[0] <= 0:
        return False
    unit = any(abs(deviation - 1) < EXACT for deviation in deviations)
    if unit and abs(mean) < EXACT:
        return True
    ordered = np.sort(values)
    return abs(mean) / deviations[0] < CENTRED and np.abs(ordered + ordered[::-1]).max() > SYMMETRIC * deviations[0]


def _is_scaled(column: Column) -> bool:
    values = column.values[~column.missing]
    low, high = float(values.min()), float(values.max())
    return (low, high) in {(0.0, 1.0), (-1.0, 1.0)} and (values == low).sum() == 1 and (values == high).sum() == 1


def _reaches(column: Column, train: Array) -> bool:
    """Return whether the train rows hold both ends, so that they alone may have set the scale."""
    values = column.values[train & ~column.missing]
    return bool(values.min() == np.nanmin(column.values) and values.max() == np.nanmax(column.values))


def _of_scaling(columns: list[Column], how: str) -> Finding:
    names = ", ".join(repr(column.name) for column in columns[:4]) + (", …" if len(columns) > 4 else "")
    return Finding(
        kind="preprocessing",
        severity="warning",
        message=f"{len(columns)} columns ({names}) are {how} over all rows, held-out ones included.",
        measured=float(len(columns)),
        bound=1.0,
        count=len(columns),
        remedy="Give the unscaled columns: the engine scales them by the train rows alone (it does so now too, on top, "
        "which undoes a linear scaling).",
    )


def _filled(column: Column, table: LeakTable) -> Finding | None:
    """Return the finding of a value that fills holes and is the mean or median of all other rows."""
    there = ~column.missing
    values, counts = np.unique(column.values[there], return_counts=True)
    if len(values) < MIN_ROWS:
        return None
    order = np.argsort(counts)
    value, often = float(values[order[-1]]), int(counts[order[-1]])
    if often < max(3, FILLED_SHARE * there.sum()):
        return None
    filled = there & (column.values == value)
    rest, trained = there & ~filled, there & ~filled & table.train
    for name, statistic in (("mean", np.mean), ("median", np.median)):
        if often < FILLED_TIMES[name] * counts[order[-2]]:
            continue
        scale = float(column.values[rest].std()) or 1.0
        over_all = abs(float(statistic(column.values[rest])) - value) / scale
        over_train = abs(float(statistic(column.values[trained])) - value) / scale if trained.any() else 1.0
        if over_all < FILL_DIGITS <= over_train:
            return _of_filling(column, name, value, np.flatnonzero(filled), table)
    return None


def _of_filling(column: Column, statistic: str, value: float, rows: Array, table: LeakTable) -> Finding:
    return Finding(
        kind="preprocessing",
        column=column.name,
        severity="warning",
        message=f"{len(rows)} cells of {column.name!r} hold {value:.6g}, the {statistic} of the other cells of all "
        "rows, held-out ones included: holes were filled before the split.",
        measured=float(len(rows)),
        bound=0.0,
        rows=table.places(rows[:MAX_ROWS_NAMED]),
        count=len(rows),
        remedy="Give the column with its holes: the engine fills them by the train rows alone.",
    )
