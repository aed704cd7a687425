"""Copies left out: train rows whose inputs are those of a held-out row, or almost; validation rows like test rows.

Almost: nearer than a tenth of the median distance between neighbours of the train split, in spreads of each number.
"""

from __future__ import annotations

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError

NEAR = 0.1
MAX_COMPARED = 50_000
"""Rows up to which near ones are searched for; of more, equal ones alone."""
MAX_NUMBERS = 64
DIGITS = 5
SPREAD_OF_TRAIN = 10_000


def without_copies(train: Array, held_out: Array, name: str = "train") -> Array:
    """Return which rows of a split are kept, (rows of it,).

    Args:
        train: of the split, (rows, numbers), NaN where missing.
        held_out: (rows, numbers).
        name: of the split.

    Raises:
        DataError: every row of the split is a copy.
    """
    known = {row.tobytes() for row in rounded(held_out, DIGITS)}
    kept = np.array([row.tobytes() not in known for row in rounded(train, DIGITS)], dtype=bool)
    if len(train) + len(held_out) <= MAX_COMPARED and train.shape[1] <= MAX_NUMBERS:
        kept &= ~_near(train, held_out)
    if not kept.any():
        raise DataError(
            f"Every {name} row is a copy of a row held out after it: nothing of the split is left.",
            remedy="Set data.split.drop_copies false, and give other files to the splits.",
        )
    return kept


def rounded(values: Array, digits: int) -> Array:
    """Return numbers of so many significant digits, of any shape: equal ones where they are NaN or infinite."""
    values = np.nan_to_num(values.astype(np.float64), nan=-9.87654e30, posinf=1e38, neginf=-1e38)
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    unit = 10.0 ** np.clip(size - digits + 1, -250, 250)
    short = np.clip(np.round(values / unit) * unit + 0.0, -1e38, 1e38)
    return np.asarray(short.astype(np.float32).astype(np.float64))


def _near(train: Array, held_out: Array) -> Array:
    from scipy.spatial import KDTree

    mean, spread = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    varied = spread > 0
    if varied.sum() < 2 or len(train) < 3:
        return np.zeros(len(train), dtype=bool)
    points, others = (
        np.nan_to_num((rows[:, varied] - mean[varied]) / spread[varied], nan=0.0) for rows in (train, held_out)
    )
    tree = KDTree(points)
    apart = tree.query(points[:SPREAD_OF_TRAIN], k=2)[0][:, 1]
    unit = float(np.median(apart[apart > 0])) if (apart > 0).any() else 0.0
    return np.asarray(KDTree(others).query(points)[0] <= NEAR * unit) if unit > 0 else np.zeros(len(train), dtype=bool)
