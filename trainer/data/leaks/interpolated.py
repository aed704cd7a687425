"""Oversampling before the split: rows copied many times, or drawn on the line between two others (SMOTE).

Such a row lies on the segment between two rows of its class. Other rows do not, save on a coarse grid, where the
place on the segment is a fraction of small whole numbers.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.spatial import KDTree

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.duplicates import is_key, normalised
from trainwright.trainer.data.leaks.finding import MAX_ROWS_NAMED, Finding
from trainwright.trainer.data.leaks.table import LeakTable, Target

MIN_NUMBERS = 3
NEIGHBOURS = 12
ON_LINE = 1e-4
"""Distance from the line, in lengths of the segment."""
FRACTIONS = np.unique([a / b for b in range(1, 25) for a in range(b + 1)])
FRACTION_NEAR = 1e-5
MIN_SHARE = 0.02
MIN_ROWS = 6
MAX_ROWS = 2500
COPIED = 0.06
"""Share of the train rows that are copies of another one."""
TIMES_AS_OFTEN = 8.0
"""Copies a row of the class that was made more frequent, in those of the others, which nobody copies."""


def find(table: LeakTable) -> list[Finding]:
    """Return the finding of interpolated rows and that of copied ones."""
    target = table.target
    if target is None or not table.held_out.any():
        return []
    return [*_copied(table, target), *_interpolated(table, target)]


def _interpolated(table: LeakTable, target: Target) -> list[Finding]:
    columns = [column for column in table.numeric() if column.is_continuous and not is_key(column)]
    if len(columns) < MIN_NUMBERS or not target.is_classes:
        return []
    values = np.column_stack([np.where(column.missing, 0.0, column.values) for column in columns])
    spread = values.std(axis=0)
    points = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1)
    on_line = np.zeros(len(points), dtype=bool)
    for one in range(len(target.classes or [])):
        members = np.flatnonzero(target.values == one)[:MAX_ROWS]
        if len(members) > NEIGHBOURS:
            on_line[members] = _on_lines(points[members])
    rows = np.flatnonzero(on_line)
    if len(rows) < max(MIN_ROWS, MIN_SHARE * len(points)):
        return []
    return [
        Finding(
            kind="interpolated",
            severity="warning",
            message=f"{len(rows)} of {len(points)} rows lie exactly between two others of their class. SMOTE makes "
            "such rows; made before the split, they are mixed of rows on both of its sides.",
            measured=round(len(rows) / len(points), 6),
            bound=MIN_SHARE,
            rows=table.places(rows[:MAX_ROWS_NAMED]),
            count=len(rows),
            remedy="Where they were made, give the file without them: rare classes can weigh more in the loss instead "
            "(configs/losses.md). Measured rows on a grid may lie so by nature: they stay.",
        )
    ]


def _on_lines(points: Array) -> Array:
    """Return whether each point is on the segment between two of its neighbours, (points,)."""
    count = min(NEIGHBOURS, len(points) - 1)
    near = KDTree(points).query(points, k=count + 1)[1][:, 1:]
    found = np.zeros(len(points), dtype=bool)
    for first, second in combinations(range(count), 2):
        start, end = points[near[:, first]], points[near[:, second]]
        line = end - start
        length = (line**2).sum(axis=1)
        safe = np.where(length > 0, length, 1)
        place = ((points - start) * line).sum(axis=1) / safe
        off = np.sqrt((((start + place[:, None] * line) - points) ** 2).sum(axis=1) / safe)
        grid = np.abs(place[:, None] - FRACTIONS).min(axis=1) < FRACTION_NEAR
        moved = (np.abs(points - start) > 1e-9).sum(axis=1)
        found |= (length > 0) & (off < ON_LINE) & (place > 0) & (place < 1) & ~grid & (moved >= MIN_NUMBERS)
    return found


def _copied(table: LeakTable, target: Target) -> list[Finding]:
    columns = [column for column in table.columns if not is_key(column)]
    wide = [column for column in columns if column.is_continuous or column.kind == "text"]
    if not wide:
        return []
    # Copies all on the other side are duplicates, which are another finding; and where a measurement is missing, two
    # rows are equal sooner than by a copy.
    places = np.flatnonzero(table.train & ~np.any([column.missing for column in wide], axis=0))
    keys = normalised(columns)[places]
    first = np.unique(keys, return_index=True)[1]
    more = places[np.setdiff1d(np.arange(len(keys)), first)]
    first = places[first]
    if len(more) < max(MIN_ROWS, COPIED * len(keys)) or not target.is_classes:
        return []
    shares = np.bincount(target.values[more], minlength=len(target.classes or []))
    kept = np.bincount(target.values[first], minlength=len(shares))
    rare = int((shares / np.maximum(kept, 1)).argmax())
    if kept[rare] == kept.max():
        return []  # nobody makes the most frequent class more frequent
    if shares[rare] / max(kept[rare], 1) < TIMES_AS_OFTEN * (shares.sum() - shares[rare]) / max(
        kept.sum() - kept[rare], 1
    ):
        return []  # of every class alike: duplicates, which are another finding
    return [
        Finding(
            kind="interpolated",
            severity="warning",
            message=f"{len(more)} of {len(keys)} train rows equal others, {shares[rare]} of them of class "
            f"{(target.classes or [])[rare]!r}, as when a rare class is oversampled before the split.",
            measured=round(len(more) / len(keys), 6),
            bound=COPIED,
            rows=table.places(more[:MAX_ROWS_NAMED]),
            count=len(more),
            remedy="Where they are copies, give the file without them: rare classes can weigh more in the loss instead "
            "(configs/losses.md). Different rows that are equal by nature stay.",
        )
    ]
