"""Pairs: two columns that give the target away together, and alone say nothing of it: a parity, an exclusive or.

Measurements are cut into a few intervals of as many rows each; whole numbers stay as they are, or by their parity.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.duplicates import is_key
from trainwright.trainer.data.leaks.finding import Finding
from trainwright.trainer.data.leaks.power import by_value, power_of
from trainwright.trainer.data.leaks.table import Column, LeakTable, Target
from trainwright.trainer.data.leaks.target import MIN_ROWS, PERFECT

MIN_COLUMNS, MAX_COLUMNS = 3, 40
"""Two columns alone are the whole problem."""
MAX_ROWS = 4000
FEW_VALUES = 12
"""Different values up to which a column is taken by its values."""
INTERVALS = 4
ALONE = 0.3
"""Power that either column has at most by itself: of more, one column says it, or the two are honest measurements."""


def find(table: LeakTable) -> list[Finding]:
    """Return the finding of the pair of columns with the most power, where there is one, of classes alone."""
    target = table.target
    if target is None or not target.is_classes or len(table.rows) < MIN_ROWS:
        return []
    rows = np.arange(len(table.rows))
    rows = rows if len(rows) <= MAX_ROWS else np.sort(np.random.default_rng(0).choice(rows, MAX_ROWS, replace=False))
    drawn = Target(target.name, target.values[rows], target.classes)
    usable = [one for one in table.columns if one.kind != "text" and not is_key(one) and one.distinct > 1]
    coded = [(one.name, _codes(one)[rows]) for one in usable[:MAX_COLUMNS]]
    weak = [(name, codes) for name, codes in coded if power_of(by_value(codes, drawn), drawn) <= ALONE]
    if len(usable) < MIN_COLUMNS:
        return []
    pairs = ((_power(one[1], other[1], drawn), one[0], other[0]) for one, other in combinations(weak, 2))
    power, first, second = max(pairs, default=(0.0, "", ""))
    return [_finding(first, second, power)] if power >= PERFECT else []


def _codes(column: Column) -> Array:
    """Return a column as a few whole numbers, (rows,): its values, the parity of many whole ones, or intervals."""
    if not column.is_numeric or column.distinct <= FEW_VALUES:
        return column.codes
    there = column.values[~column.missing]
    if (there == np.floor(there)).all():
        return np.where(column.missing, -1, np.nan_to_num(column.values) % 2).astype(np.int64)
    edges = np.quantile(there, np.linspace(0, 1, INTERVALS + 1)[1:-1])
    signs = (column.values > 0) & (there.min() < 0)  # an exclusive or is one of signs more often than of quantiles
    return np.where(column.missing, -1, 2 * np.searchsorted(edges, column.values) + signs)


def _power(first: Array, second: Array, target: Target) -> float:
    """Return the power of two columns together; 0 where they do not even tell the rows that they are fitted on."""
    codes = np.unique((first + 1) * (int(second.max()) + 2) + second + 1, return_inverse=True)[1]
    classes = len(target.classes or [])
    counts = np.bincount(codes * classes + target.values, minlength=(int(codes.max()) + 1) * classes)
    fitted = counts.reshape(-1, classes).max(axis=1).sum() / len(codes)
    return power_of(by_value(codes, target), target) if fitted >= PERFECT else 0.0


def _finding(first: str, second: str, power: float) -> Finding:
    changes = {f"data.args.columns.{first}": "ignore"}
    return Finding(
        kind="pair",
        column=first,
        beside=second,
        severity="warning",
        message=f"Columns {first!r} and {second!r} together tell the target (power {power:.3f} of 1 on rows they were "
        "not fitted on), and neither does alone.",
        measured=round(power, 6),
        bound=PERFECT,
        remedy=f"If they are not both known when the model is used, ignore one: changes {changes}.",
        changes=changes,
    )
