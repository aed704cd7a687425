"""Groups: a column such as a patient's id whose rows lie in several splits, and that gives the target away.

An id is told from a number by its order, which means nothing: rows with the same id predict a held-out row's target,
and rows with neighbouring ids do not. A number that is not named as an id must number something: its rows have a
property in common, each value has as many rows, or none is left out. An id is told from a category by its many values
with few rows each. Where the rows of each value follow one another and have one target, the value numbers a thing
whatever its order: recordings that are listed by speaker, say.
"""

from __future__ import annotations

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.finding import MAX_ROWS_NAMED, NAMED, Finding, removed_by_split
from trainwright.trainer.data.leaks.power import by_chance, power_of, told_by
from trainwright.trainer.data.leaks.table import Column, LeakTable, Target

MIN_GROUPS = 12
ROWS_OF_GROUP = (1.5, 40.0)
"""Mean rows of a group, least and most; of columns that are not named as ids at most FEW_ROWS."""
FEW_ROWS = 12.0
PARTED = 0.3
"""Share of the held-out rows whose group is trained on too."""
MIN_POWER = 0.08
"""Of the group alone, beyond that of neighbouring ids."""
SHUFFLES = 40
MOSTLY = 0.8
"""Share of the groups in which a property of theirs has one value, and of those that have the most frequent size."""


def find(table: LeakTable) -> list[Finding]:
    """Return a finding for each column of groups that are parted."""
    target = table.target
    if target is None or not table.held_out.any():
        return []
    return [one for column in table.columns if (one := _finding(table, target, column)) is not None]


def _finding(table: LeakTable, target: Target, column: Column) -> Finding | None:
    is_named = NAMED.search(column.name) is not None or _follow_one_another(column, target)
    if not _may_be_groups(column, is_named=is_named):
        return None
    held_out = np.flatnonzero(table.held_out & (column.codes >= 0))
    trained = np.unique(column.codes[table.train])
    parted = held_out[np.isin(column.codes[held_out], trained)]
    if len(parted) < max(5, PARTED * len(held_out)):
        return None

    def power(codes: Array) -> float:
        return power_of(_by_group(codes, target, table.train, parted), target, parted)

    own = power(column.codes)
    beside = 0.0 if is_named else _beside(column, target, table.train, parted)
    bound = by_chance(power, column.codes, SHUFFLES, table.train)
    if own - max(beside, 0.0) < MIN_POWER or own <= bound:
        return None
    if not (is_named or column.kind == "category" or _numbers_something(table, target, column)):
        return None
    return removed_by_split(
        "group",
        column.name,
        f"{len(parted)} of {len(held_out)} held-out rows share their {column.name!r} with train rows, whose target "
        "tells theirs",
        f"Keep each {column.name!r} in one split",
        power=own,
        by_chance=bound,
        least=MIN_POWER,
        rows=table.places(parted[:MAX_ROWS_NAMED]),
        count=len(parted),
    )


def _follow_one_another(column: Column, target: Target) -> bool:
    """Whether the rows of each value stand together in the source, and have one class, by more than chance."""
    there = np.flatnonzero(column.codes >= 0)
    codes = column.codes[there]
    if target.classes is None or 1 + np.count_nonzero(np.diff(codes)) != len(np.unique(codes)):
        return False
    return _is_shared(codes, target.values[there]) and _of_one_value(codes, target.values[there]) == 1.0


def _may_be_groups(column: Column, *, is_named: bool) -> bool:
    if column.kind not in {"number", "category"} or column.distinct < MIN_GROUPS:
        return False
    there = column.values[~column.missing]
    if column.kind == "number" and (there != np.floor(there)).any():
        return False
    size = len(there) / column.distinct
    most = ROWS_OF_GROUP[1] if is_named else FEW_ROWS
    return ROWS_OF_GROUP[0] <= size <= most


def _numbers_something(table: LeakTable, target: Target, column: Column) -> bool:
    """Return whether each value of a number names a thing: a measurement has gaps, uneven counts and no properties.

    What the rows of a thing have in common may be the target itself, and unknown of some rows.
    """
    there = np.flatnonzero(column.codes >= 0)
    codes = column.codes[there]
    sizes = np.bincount(codes)
    values = column.values[there]
    if np.mean(sizes == np.bincount(sizes).argmax()) >= MOSTLY or np.ptp(values) + 1 == len(sizes):
        return True
    properties = [other.codes[there] for other in table.columns if other is not column]
    properties.append(np.unique(target.values[there], return_inverse=True)[1])
    return any(_is_shared(codes, each) for each in properties)


def _is_shared(codes: Array, values: Array) -> bool:
    """Return whether most groups have one value of a property each, (rows,), -1 where unknown, and not by chance."""
    known = values >= 0
    several = np.sum(np.bincount(codes) > 1)
    codes, values = codes[known], values[known]
    if np.sum(np.bincount(codes) > 1) < max(1, several / 2) or np.ptp(values) == 0:
        return False
    by_chance = _of_one_value(codes, np.random.default_rng(0).permutation(values))
    return _of_one_value(codes, values) >= MOSTLY > 0.5 + by_chance / 2


def _of_one_value(codes: Array, values: Array) -> float:
    """Return in which share of the groups of several rows, of which there are some, these have one value."""
    sizes = np.bincount(codes)
    least, most = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
    np.minimum.at(least, codes, values)
    np.maximum.at(most, codes, values)
    return float((least == most)[sizes > 1].mean())


def _by_group(codes: Array, target: Target, train: Array, asked: Array) -> Array:
    """Return the asked rows' targets as the train rows of the same group have them, (asked,)."""
    size = int(codes.max()) + 2
    places = codes[train] + 1
    counts = np.bincount(places, minlength=size)
    wanted = target.indicators[train]
    sums = np.stack([np.bincount(places, weights=one, minlength=size) for one in wanted.T], axis=1)
    mean = wanted.mean(axis=0)
    shares = (sums + mean) / (counts + 1)[:, None]  # one row of the mean: small groups are less sure
    return told_by(shares[codes[asked] + 1], mean, target)


def _beside(column: Column, target: Target, train: Array, asked: Array) -> float:
    """Return the power of the groups next to each row's own in order, of numbers; a measurement has it, an id has not.

    The two trained groups below and above are read, without the row's own.
    """
    if column.kind != "number":
        return 0.0
    codes = column.codes
    step = np.zeros((len(asked), target.indicators.shape[1]))
    size = int(codes.max()) + 1
    places = codes[train & (codes >= 0)]
    counts = np.bincount(places, minlength=size)
    sums = np.stack(
        [np.bincount(places, weights=one, minlength=size) for one in target.indicators[train & (codes >= 0)].T], axis=1
    )
    number = np.zeros(len(asked))
    for away in (-2, -1, 1, 2):
        place = codes[asked] + away
        inside = (place >= 0) & (place < size)
        step[inside] += sums[place[inside]]
        number[inside] += counts[place[inside]]
    mean = target.indicators[train].mean(axis=0)
    shares = (step + mean) / (number + 1)[:, None]
    return power_of(told_by(shares, mean, target), target, asked)
