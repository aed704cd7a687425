"""Clumps: rows that come in tight groups of which no column tells, such as ten rows of each patient.

Rows of one clump lie in several splits, and the nearest train row tells a held-out row's target; the nearest one of
another clump tells nothing. Where the target follows from the inputs, rows of other clumps tell it nearly as well.
"""

from __future__ import annotations

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import cdist

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.duplicates import is_key
from trainwright.trainer.data.leaks.finding import MAX_ROWS_NAMED, Finding
from trainwright.trainer.data.leaks.power import power_of
from trainwright.trainer.data.leaks.table import LeakTable

MIN_NUMBERS = 3
"""Columns of measurements: in fewer, clumps are not told from rows that are dense somewhere."""
MIN_CLUMPS = 12
MIN_OF_CLASS = 3
"""Clumps that a class has at least in the mean; a class that is one clump is a class."""
MAX_ROWS = 3000
LARGEST = 0.1
"""Share of the rows that the largest clump has at most."""
IN_CLUMPS = 0.8
"""Share of the rows that lie in clumps of several rows."""
CUTS = 40
"""Distances at which rows are joined to clumps."""
MIN_POWER = 0.5
"""Of the nearest row."""
MAX_BESIDE = 0.3
"""Of that power, what the nearest row of another clump has at most."""


def find(table: LeakTable) -> list[Finding]:
    """Return the finding of rows in clumps that splits part; none where a column names the clumps or splits keep them.

    The clumps are those of average linkage at the widest distance that leaves many of them.
    """
    target, columns = table.target, [one for one in table.numeric() if one.is_continuous and not is_key(one)]
    if target is None or len(columns) < MIN_NUMBERS or not table.held_out.any():
        return []
    rows = np.arange(len(table.rows))
    rows = rows if len(rows) <= MAX_ROWS else np.sort(np.random.default_rng(0).choice(rows, MAX_ROWS, replace=False))
    values = np.column_stack([np.where(one.missing, np.nanmedian(one.values), one.values)[rows] for one in columns])
    spread = values.std(axis=0)
    points = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1)
    clumps = _clumps(points)
    if clumps is None or clumps.max() + 1 < MIN_OF_CLASS * len(target.classes or []):
        return []
    held_out, train = np.flatnonzero(table.held_out[rows]), np.flatnonzero(table.train[rows])
    parted = held_out[np.isin(clumps[held_out], clumps[train])]
    if len(parted) < IN_CLUMPS * len(held_out):
        return []
    powers = [
        power_of(target.values[rows[one]], target, rows[parted]) for one in _nearest(points, clumps, parted, train)
    ]
    if powers[0] < MIN_POWER or powers[1] > MAX_BESIDE * powers[0]:
        return []
    return [_finding(table, clumps, rows[parted], *powers)]


def _clumps(points: Array) -> Array | None:
    """Return the number of each row's clump, (rows,); None where rows lie in none."""
    tree = hierarchy.linkage(points, "average")
    for cut in np.quantile(tree[:, 2], np.linspace(1, 0.2, CUTS)):
        found: Array = hierarchy.fcluster(tree, cut, "distance") - 1
        sizes = np.bincount(found)
        if (sizes > 1).sum() < MIN_CLUMPS or sizes.max() > LARGEST * len(points):
            continue
        return found if sizes[sizes > 1].sum() >= IN_CLUMPS * len(points) else None
    return None


def _nearest(points: Array, clumps: Array, asked: Array, train: Array) -> tuple[Array, Array]:
    """Return each asked row's nearest train row, and its nearest one of another clump, (asked,) each."""
    apart = cdist(points[asked], points[train])
    near = train[apart.argmin(axis=1)]
    apart[clumps[asked][:, None] == clumps[train]] = np.inf
    return near, train[apart.argmin(axis=1)]


def _finding(table: LeakTable, clumps: Array, parted: Array, near: float, beside: float) -> Finding:
    sizes = np.bincount(clumps)
    several = sizes[sizes > 1]
    return Finding(
        kind="clumps",
        severity="warning",
        message=f"Rows come in {len(several)} clumps of {several.min()} to {several.max()} rows, and {len(parted)} "
        f"held-out rows have train rows of their clump. The nearest train row tells their target (power {near:.2f} of "
        f"1), the nearest of another clump does not ({beside:.2f}): on rows of new clumps the figure would be another.",
        measured=round(near - beside, 6),
        bound=MIN_POWER * (1 - MAX_BESIDE),
        rows=table.places(parted[:MAX_ROWS_NAMED]),
        count=len(parted),
        remedy="Ask whose rows they are (patient, device, place, day), add that as a column, and keep each in one "
        "split: `data.split.by: group`, `data.split.group: <column>`. Clumps that new rows lie in too may stay.",
    )
