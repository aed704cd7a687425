"""Duplicates: held-out rows whose inputs are also trained on, once spaces, case and last digits are levelled.

Coarse tables hold equal rows by chance, and rows within the train split tell how many; only more than that is a leak.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.copies import rounded
from trainwright.trainer.data.leaks.finding import MAX_ROWS_NAMED, Finding, probability
from trainwright.trainer.data.leaks.table import Column, LeakTable

DIGITS = 6
"""Significant ones that two numbers must share to be equal."""
MIN_ROWS = 3
MIN_SHARE = 0.005
"""Of the held-out rows."""
ONCE_IN = 1e4
BEYOND_COINCIDENCE = 20.0
"""Times the pairs that independent columns would give by coincidence."""
MAX_PAIRS = 3
DROP = "data.split.drop_copies"


def find(table: LeakTable) -> list[Finding]:
    """Return the finding of rows in two splits, if there is one."""
    columns = [column for column in table.columns if not is_key(column)]
    if not columns or not table.held_out.any() or not table.train.any():
        return []
    keys = normalised(columns)
    trained = Counter(keys[table.train].tolist())
    copies = np.flatnonzero(table.held_out)[[key in trained for key in keys[table.held_out].tolist()]]
    held_out = int(table.held_out.sum())
    if len(copies) < max(MIN_ROWS, MIN_SHARE * held_out):
        return []
    if len(copies) <= BEYOND_COINCIDENCE * coincidences(columns, table):
        return []
    both = set(keys[copies].tolist())
    parted, taken = len(both), sum(trained[key] for key in both)
    within = sum(count for count in trained.values() if count > 1)
    wide = any(column.is_continuous or column.kind == "text" for column in columns)
    if not wide and probability(parted, within, len(trained), held_out) * ONCE_IN >= 1:
        return []
    share = len(copies) / held_out
    message = f"{len(copies)} of {held_out} held-out rows ({share:.1%}) have the same inputs as train rows"
    found = Finding(
        kind="duplicate",
        severity="warning",
        message=f"{message}{' (the splits were given)' if table.given else ''}.",
        measured=round(share, 6),
        bound=MIN_SHARE,
        rows=table.places(copies[:MAX_ROWS_NAMED]),
        pairs=_pairs(table, keys, copies[:MAX_PAIRS]),
        count=len(copies),
        remedy=f"Leave the copies out of the train split, {taken} of its {int(table.train.sum())} rows: changes "
        f"{{'{DROP}': true}}. Ask first whether they are copies: the same may have been observed twice.",
        changes={DROP: True},
    )
    alike = _with_one_target(table, keys, copies)
    if alike >= MIN_ROWS:
        return [found]
    message += f", {len(copies) - alike} of them of another class alone: no score gains by these."
    remedy = "Nothing has to be done. They show what these inputs cannot tell apart; another column might."
    return [found.model_copy(update={"severity": "info", "message": message, "remedy": remedy, "changes": {}})]


def _pairs(table: LeakTable, keys: Array, copies: Array) -> list[tuple[int, int]]:
    """Return the places of copies, each with that of the first train row that it is like."""
    trained = np.flatnonzero(table.train)
    alike = [trained[keys[trained] == keys[row]][0] for row in copies]
    return list(zip(table.places(copies), table.places(np.array(alike)), strict=True))


def _with_one_target(table: LeakTable, keys: Array, copies: Array) -> int:
    """Return how many copies have the class of a train row with their inputs; all, where there are no classes."""
    if table.target is None or not table.target.is_classes:
        return len(copies)
    values = table.target.values
    known = set(zip(keys[table.train].tolist(), values[table.train].tolist(), strict=True))
    return sum(pair in known for pair in zip(keys[copies].tolist(), values[copies].tolist(), strict=True))


def without_copies(table: LeakTable) -> LeakTable:
    """Return the table with one of each row, the first."""
    columns = [column for column in table.columns if not is_key(column)]
    if not columns:
        return table
    first = np.sort(np.unique(normalised(columns), return_index=True)[1])
    return table if len(first) == len(table.rows) else table.chosen(first)


def normalised(columns: list[Column]) -> Array:
    """Return a key of each row, (rows,): equal where the rows differ in spaces, case or last digits alone."""
    parts = []
    for column in columns:
        if column.is_numeric:
            parts.append(rounded(column.values, DIGITS))
        else:
            cells = [" ".join(str(cell).casefold().split()) for cell in column.cells]
            parts.append(np.unique(np.array(cells, dtype=object).astype(str), return_inverse=True)[1].astype(float))
    rows = np.ascontiguousarray(np.column_stack(parts))
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def is_key(column: Column) -> bool:
    """Return whether a column numbers or names the rows: all values differ, and they are whole numbers or one word."""
    if column.distinct < len(column.values) - int(column.missing.sum()) or column.kind in {"date", "text"}:
        return False
    if column.kind == "category":
        return True
    there = column.values[~column.missing]
    return len(there) > 0 and bool((there == np.floor(there)).all())


def coincidences(columns: list[Column], table: LeakTable) -> float:
    """Return how many pairs of a held-out and a train row would be equal if the columns were independent."""
    pairs = float(table.held_out.sum()) * float(table.train.sum())
    for column in columns:
        counts = np.bincount(column.codes + 1)
        pairs *= float(((counts / counts.sum()) ** 2).sum())
    return pairs
