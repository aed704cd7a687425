"""Samples of two splits that are almost equal: a copy with altered last digits is another sample by its bytes.

Sketches are compared in units of each number's spread over the first split, so every feature counts. Natural data
holds almost equal samples too, so those of the first split are counted as well; the gate judges what chance explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from trainwright.trainer.data.sketches import Array, Numbers, Sketches

if TYPE_CHECKING:
    from trainwright.trainer.data.fingerprint import SplitRecord

TOLERANCES = (0.005, 0.0001)
"""Root mean squares of the differences, in spreads, up to which two inputs are almost equal. The second finds copies
where samples lie so close together that the first says nothing."""
SURROUNDINGS = 4
"""Times the tolerance: within this distance another input of the same split counts as near. Above 2, since points of a
regular grid that are dealt out in turn lie twice as far from their own split as from the other."""
LARGEST = 1e100
"""Larger numbers count as this one: the square of a difference must be a number."""
ROWS_OF_SPREAD = 2000
"""Of the split, by which spreads are measured."""
EXAMPLES = 5


@dataclass
class Alike:
    """How many inputs of one split have an almost equal one in another, and how many would be no surprise."""

    tolerance: float
    alike: int = 0
    """Distinct inputs of the first split that are almost equal, and nearest, to an input of the second."""
    near: int = 0
    """Distinct inputs of the first split that have another one of the same split within its surroundings."""
    first: int = 0
    """Distinct inputs of the first split."""
    second: int = 0
    """Distinct inputs of the second split, those of samples that the first holds too left out."""
    examples: list[list[int]] = field(default_factory=list)
    """Indices of almost equal samples, [in the first split, in the second], at most EXAMPLES."""


def compare(first: SplitRecord, others: Sequence[SplitRecord]) -> list[list[Alike]]:
    """Count the almost equal inputs of a split and of each other one, once for each tolerance.

    Args:
        first: the split from which the spreads are taken, usually the train split.
    """
    known = set(first.digests)
    distinct = np.array(list({digest: row for row, digest in enumerate(first.digests)}.values()), dtype=np.int64)
    new = [[row for row, digest in enumerate(other.digests) if digest not in known] for other in others]
    groups = [other.sketches.by_width(np.array(rows, dtype=np.int64)) for other, rows in zip(others, new, strict=True)]
    found = [[Alike(tolerance) for tolerance in TOLERANCES] for _ in others]
    for width, rows in first.sketches.by_width(distinct).items():
        inputs = _Inputs(first.sketches, rows)
        for each, other, group in zip(found, others, groups, strict=True):
            inputs.count(each, other.sketches, group.pop(width, np.array([], dtype=np.int64)))
    for each, group in zip(found, groups, strict=True):
        for one in each:
            one.second += sum(map(len, group.values()))
    return found


class _Inputs:
    """The distinct inputs of a split's samples of one width, as points.

    Their distance is the root mean square of the differences; those that differ in what must be equal lie far apart.
    """

    def __init__(self, sketches: Sketches, rows: Array) -> None:
        from scipy.spatial import KDTree

        self.sketches = sketches
        self.spread = _spread(sketches.stacked(rows[:: max(len(rows) // ROWS_OF_SPREAD, 1)]))
        self.places: dict[bytes, int] = {}
        self.points, self.rows, self.copies = self._points(sketches, rows)
        self.tree = KDTree(self.points, balanced_tree=False, compact_nodes=False)

    def count(self, found: list[Alike], other: Sketches, rows: Array) -> None:
        """Add the counts for another split's samples of the same width."""
        points, rows, _ = self._points(other, rows) if len(rows) else (self.points[:0], rows, rows)
        distances, nearest = self.tree.query(points, distance_upper_bound=max(TOLERANCES))
        some = np.isfinite(distances).any()  # seldom
        for one in found:
            one.first += len(self.points)
            one.second += len(points)
            if some:
                pairs = np.flatnonzero(distances <= one.tolerance)
                one.alike += len(np.unique(nearest[pairs]))
                one.near += int((self.distances <= SURROUNDINGS * one.tolerance).sum())
                for pair in pairs[: EXAMPLES - len(one.examples)]:
                    row = self.rows[nearest[pair]]
                    one.examples.append([self.sketches.indices[row], other.indices[rows[pair]]])

    @cached_property
    def distances(self) -> Numbers:
        """From each input to the nearest other one, 0 where samples differ in their label alone."""
        distances: Numbers = self.tree.query(self.points, k=2, distance_upper_bound=SURROUNDINGS * max(TOLERANCES))[0]
        return np.where(self.copies > 1, 0.0, distances[:, 1])

    def _points(self, sketches: Sketches, rows: Array) -> tuple[Numbers, Array, Array]:
        """Return the distinct points, (inputs, width + 1), the first row of each, and how many rows it stands for."""
        values = sketches.stacked(rows)
        with np.errstate(all="ignore"):
            values /= self.spread * np.sqrt(max(values.shape[1], 1))
        exact = (sketches.exact[row] for row in rows.tolist())
        apart = np.array([self.places.setdefault(one, len(self.places)) for one in exact], dtype=np.float64)
        points = np.column_stack([_finite(values), apart])
        del values
        points += 0.0  # no negative zeros
        as_bytes = points.view(np.dtype((np.void, points.itemsize * points.shape[1]))).ravel()
        _, first, copies = np.unique(as_bytes, return_index=True, return_counts=True)
        if len(first) == len(points):
            return points, rows, copies
        order = np.argsort(first)
        return points[first[order]], rows[first[order]], copies[order]


def _spread(values: Numbers) -> Numbers:
    """Return half the width of each number's middle nine tenths, which a few outliers do not move."""
    halves = _finite(values) / 2
    low, high = np.quantile(halves, [0.05, 0.95], axis=0)
    spread = np.where(high > low, high - low, halves.max(axis=0) - halves.min(axis=0))
    varied = spread[spread > 0]
    # what hardly varies must not keep copies apart that were altered there
    return np.maximum(spread, 0.01 * np.median(varied)) if len(varied) else np.ones_like(spread)


def _finite(values: Numbers) -> Numbers:
    """Return the values, in their own memory, without those that no square is a number of."""
    np.nan_to_num(values, copy=False)
    return np.clip(values, -LARGEST, LARGEST, out=values)
