"""Time: rows in time order whose target follows from the rows around them, dealt out at random.

Then a held-out row's neighbours before *and after* it are trained on, which no model has where it is used.
"""

from __future__ import annotations

import re

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.finding import MAX_ROWS_NAMED, Finding, removed_by_split
from trainwright.trainer.data.leaks.power import by_chance, power_of, told_by
from trainwright.trainer.data.leaks.table import Column, LeakTable, Target

NEIGHBOURS = 2
"""Train rows on either side of a held-out row that are read."""
MIN_POWER = 0.12
EARLIER = 0.5
"""Share of the held-out rows that are earlier than the last tenth of the train rows."""
SHUFFLES = 40
MIN_TIMES = 0.3
"""Different times, as a share of the rows: of fewer, neighbours are not defined."""
NAMED = re.compile(r"(^|_)(time|timestamp|date|datetime|ts|epoch|unix)(_|$)", re.IGNORECASE)


def find(table: LeakTable) -> list[Finding]:
    """Return a finding for the column of time that tells the most of the target, if one does."""
    target = table.target
    if target is None or not table.held_out.any() or int(table.train.sum()) < 4 * NEIGHBOURS:
        return []
    found = [one for column in times(table) if (one := _finding(table, target, column)) is not None]
    return [max(found, key=lambda one: one.measured)] if found else []


def times(table: LeakTable) -> list[Column]:
    """Return the columns that tell when a row was made."""
    wide = [column for column in table.columns if column.distinct >= MIN_TIMES * len(table.rows)]
    return [
        column for column in wide if column.kind == "date" or (column.kind == "number" and NAMED.search(column.name))
    ]


def _finding(table: LeakTable, target: Target, column: Column) -> Finding | None:
    there = ~column.missing
    train, asked = table.train & there, np.flatnonzero(table.held_out & there)
    if not len(asked) or int(train.sum()) < 4 * NEIGHBOURS:
        return None
    late = np.quantile(column.values[train], 0.9)
    earlier = asked[column.values[asked] < late]
    if len(earlier) < EARLIER * len(asked):
        return None
    rows = np.flatnonzero(train)
    own = _around(column.values, target, rows, asked)
    bound = by_chance(lambda values: _around(values, target, rows, asked), column.values, SHUFFLES, rows)
    if own < MIN_POWER or own <= bound:
        return None
    return removed_by_split(
        "time",
        column.name,
        f"{len(earlier)} of {len(asked)} held-out rows are earlier than train rows by {column.name!r}, and the rows "
        "around them tell their target",
        "Train on what came before",
        power=own,
        by_chance=bound,
        least=MIN_POWER,
        rows=table.places(earlier[:MAX_ROWS_NAMED]),
        count=len(earlier),
    )


def _around(values: Array, target: Target, train: Array, asked: Array) -> float:
    """Return the power of the train rows just before and after each asked row; those of its own time say nothing."""
    order = train[np.argsort(values[train], kind="stable")]
    before = np.searchsorted(values[order], values[asked], side="left") - 1
    after = np.searchsorted(values[order], values[asked], side="right")
    told = np.zeros((len(asked), target.indicators.shape[1]))
    for away in range(NEIGHBOURS):
        for place in (before - away, after + away):
            told += target.indicators[order[np.clip(place, 0, len(order) - 1)]]
    told /= 2 * NEIGHBOURS
    mean = target.indicators[train].mean(axis=0)
    return power_of(told_by(told, mean, target), target, asked)
