"""Near-duplicates: held-out rows that are train rows with altered digits, or whose texts are almost the same words.

Numbers: nearest neighbours in units of each column's spread, compared with the distances within the train split. Texts:
MinHash of their words' shingles (Broder 1997), by datasketch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import KDTree

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.duplicates import DROP, is_key
from trainwright.trainer.data.leaks.finding import MAX_ROWS_NAMED, Finding, is_beyond_chance
from trainwright.trainer.data.leaks.table import Column, LeakTable

MIN_ROWS = 3
MIN_SHARE = 0.01
"""Of the held-out rows."""
ONCE_IN = 200.0
TIMES = 3.0
TOLERANCES = (0.2, 0.1, 0.03)
"""Shares of the median distance between neighbours up to which two rows are near."""
MIN_NUMBERS = 3
"""Continuous columns from which on rows have a place of their own."""
SIMILAR = 0.6
"""Share of common shingles from which on two texts are near."""
SHINGLE = 3
PERMUTATIONS = 64
MIN_WORDS = 6
MAX_NUMERIC = 6000
MAX_TEXTS = 5000


def find(table: LeakTable) -> list[Finding]:
    """Return the findings of near rows and near texts."""
    if not table.held_out.any() or int(table.train.sum()) < 2:
        return []
    return [*_near_numbers(table), *(one for column in table.of_kind("text") for one in _near_texts(table, column))]


def _near_numbers(table: LeakTable) -> list[Finding]:
    columns = [column for column in table.numeric() if column.is_continuous and not is_key(column)]
    if len(columns) < MIN_NUMBERS:
        return []
    points = points_of(columns)
    train, others = (np.flatnonzero(which)[:MAX_NUMERIC] for which in (table.train, table.held_out))
    apart, within = _nearest(points, train, others)
    apart = np.where(apart > 0, apart, np.inf)  # equal rows are duplicates
    within = np.where(within > 0, within, np.inf)
    unit = float(np.median(within))
    if not np.isfinite(unit) or unit <= 0:
        return []
    for tolerance in TOLERANCES:
        near = np.flatnonzero(apart <= tolerance * unit)
        inside = int((within <= 2 * tolerance * unit).sum())
        if _beyond_chance(len(near), inside, len(train), len(others)):
            found = _finding(table, others[near], len(others), "in their numbers", None)
            return [found]
    return []


def points_of(columns: list[Column]) -> Array:
    """Return rows as points in units of each column's spread, (rows, columns)."""
    values = np.column_stack([np.where(column.missing, np.nanmean(column.values), column.values) for column in columns])
    spread = values.std(axis=0)
    found: Array = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return np.clip(found, -10, 10)


def _nearest(points: Array, train: Array, others: Array) -> tuple[Array, Array]:
    """Return the distance of each other row to the nearest train row, and of each train row to the nearest other."""
    tree = KDTree(points[train])
    apart = tree.query(points[others])[0]
    within = tree.query(points[train], k=2)[0][:, 1]
    return apart, within


def _beyond_chance(alike: int, near: int, first: int, second: int) -> bool:
    is_enough = alike >= max(MIN_ROWS, MIN_SHARE * second)
    return is_enough and is_beyond_chance(alike, near, first, second, once_in=ONCE_IN, most=TIMES)


def _near_texts(table: LeakTable, column: Column) -> list[Finding]:
    from datasketch import MinHash, MinHashLSH

    train, others = (np.flatnonzero(which)[:MAX_TEXTS] for which in (table.train, table.held_out))
    empty = MinHash(num_perm=PERMUTATIONS, seed=1)  # one for all: to draw the permutations takes longer than a text
    marks = {int(row): _mark(str(column.cells[row]), empty) for row in [*train.tolist(), *others.tolist()]}
    index = MinHashLSH(threshold=SIMILAR, num_perm=PERMUTATIONS)
    for row in train.tolist():
        if marks[row] is not None:
            index.insert(row, marks[row])
    cells = np.array([" ".join(str(cell).casefold().split()) for cell in column.cells], dtype=object)
    alike = [row for row in others.tolist() if _has_near(index, marks, cells, row)]
    inside = sum(_has_near(index, marks, cells, row) for row in train.tolist())
    if not _beyond_chance(len(alike), inside, len(train), len(others)):
        return []
    return [_finding(table, np.array(alike), len(others), f"in the words of {column.name!r}", column.name)]


def _mark(text: str, empty: Any) -> Any:
    words = text.casefold().split()
    if len(words) < MIN_WORDS:
        return None
    found = empty.copy()
    found.update_batch([" ".join(words[n : n + SHINGLE]).encode() for n in range(len(words) - SHINGLE + 1)])
    return found


def _has_near(index: Any, marks: dict[int, Any], cells: Array, row: int) -> bool:
    """Return whether another text that is not quite equal is similar; equal ones are duplicates."""
    mark = marks[row]
    if mark is None:
        return False
    return any(
        other != row and cells[other] != cells[row] and mark.jaccard(marks[other]) >= SIMILAR
        for other in index.query(mark)
    )


def _finding(table: LeakTable, near: Array, held_out: int, how: str, column: str | None) -> Finding:
    share = len(near) / held_out
    in_numbers = column is None
    return Finding(
        kind="near_duplicate",
        column=column,
        severity="warning",
        message=f"{len(near)} of {held_out} held-out rows ({share:.1%}) are almost train rows {how}: more than chance "
        "explains.",
        measured=round(share, 6),
        bound=MIN_SHARE,
        rows=table.places(near[:MAX_ROWS_NAMED]),
        count=len(near),
        remedy=f"Leave the copies out of the train split: changes {{'{DROP}': true}}."
        if in_numbers
        else "Keep one of each such text in the file, or give the copies a group: changes "
        "{'data.split.by': 'group', 'data.split.group': …}.",
        changes={DROP: True} if in_numbers else {},
    )
