"""Names of rows: an id, a file name or the order of the rows that tells the target.

A name is no measurement: whatever it says of the target was put there when the data were gathered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.duplicates import is_key
from trainwright.trainer.data.leaks.finding import Finding
from trainwright.trainer.data.leaks.power import by_chance, by_value, out_of_fold, power_of
from trainwright.trainer.data.leaks.table import Column, LeakTable, Target

MIN_POWER = 0.3
BY_CHANCE = 20
"""Shuffles whose best power must be below."""
ORDERED = 0.5
"""Power of the order of rows: sorted by the target."""
PARTS = re.compile(r"[/\\_\-. ]+|(?<=\D)(?=\d)|(?<=\d)(?=\D)")
MAX_PARTS = 6


def find(table: LeakTable) -> list[Finding]:
    """Return a finding for each name that tells the target, and for rows in its order."""
    target = table.target
    if target is None or len(table.rows) < 40:
        return []
    found = [one for column in table.columns if is_key(column) and (one := _named(target, column)) is not None]
    return [*found, *_ordered(table, target)]


def _named(target: Target, column: Column) -> Finding | None:
    best = 0.0
    for codes, is_number in _parts(column):
        power = partial(_power, target=target, is_number=is_number)
        shuffles = BY_CHANCE // 4 if is_number else BY_CHANCE
        if (found := power(codes)) > max(best, MIN_POWER) and found > by_chance(power, codes, shuffles):
            best = found
    if best < MIN_POWER:
        return None
    changes = {f"data.args.columns.{column.name}": "ignore"}
    return Finding(
        kind="name",
        column=column.name,
        severity="warning",
        message=f"{column.name!r} names the rows and tells their target (power {best:.2f} of 1).",
        measured=round(best, 6),
        bound=MIN_POWER,
        remedy=f"Ignore it: changes {changes}.",
        changes=changes,
    )


def _parts(column: Column) -> Iterator[tuple[Array, bool]]:
    """Yield what a name consists of, (rows,): numbers, and texts that several rows share."""
    if column.is_numeric:
        yield np.nan_to_num(column.values), True
        return
    split = [PARTS.split(str(cell)) for cell in column.cells]
    for place in range(min(MAX_PARTS, max(len(parts) for parts in split))):
        cells = [parts[place] if place < len(parts) else "" for parts in split]
        digits = [cell.isdigit() for cell in cells]
        if np.mean(digits) > 0.9:
            yield np.array([float(cell[:15]) if cell.isdigit() else -1.0 for cell in cells]), True
            continue
        codes = np.unique(cells, return_inverse=True)[1]
        if 1 < codes.max() + 1 <= len(cells) / 4:
            yield codes, False


def _power(codes: Array, target: Target, *, is_number: bool) -> float:
    numbers = codes[:, None].astype(float)
    return power_of(out_of_fold(numbers, target, shallow=True) if is_number else by_value(codes, target), target)


def _ordered(table: LeakTable, target: Target) -> list[Finding]:
    """Return the finding of rows sorted by the target: a split by place would have other classes."""
    power = power_of(out_of_fold(table.rows[:, None].astype(float), target, shallow=True), target)
    if power < ORDERED or _is_in_time(table):
        return []
    return [
        Finding(
            kind="row_order",
            severity="info",
            message=f"The rows are in the order of {target.name!r} (power of a row's place: {power:.2f} of 1): a split "
            "by place would train on other targets than it tests.",
            measured=round(power, 6),
            bound=ORDERED,
            count=len(table.rows),
            remedy="Make no column of the rows' numbers. A split at random or by group does not mind; one by time is "
            "right where the order is that of time.",
        )
    ]


def _is_in_time(table: LeakTable) -> bool:
    """Return whether the rows are in the order of a date, which explains that neighbours are alike."""
    return any(
        (np.diff(column.values[~column.missing]) >= 0).mean() > 0.99
        for column in table.of_kind("date")
        if (~column.missing).sum() > 1
    )
