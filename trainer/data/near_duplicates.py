"""Near-duplicates: samples of two splits that are almost equal, as a copy with altered last digits is.

A sample's inputs have a sketch: small, and close to that of inputs that are almost equal. The label is left out: a copy
under another label is still a copy. So are types and shapes. Sketches are compared in units of each number's spread
over the first split, so every feature counts. Natural data has almost equal samples too, so those of the first split
are counted as well; the gate decides how many chance explains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from blake3 import blake3

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.tensors import TensorSamples

if TYPE_CHECKING:
    from trainwright.trainer.data.fingerprint import SplitRecord

TOLERANCES = (0.005, 0.0001)
"""Root mean squares of the differences, in spreads, up to which two inputs are almost equal. The second finds copies
where samples are so close together that the first criterion is useless."""
SURROUNDINGS = 4
"""Times the tolerance: within this distance another input of the same split counts as near. Above 2, since points of a
regular grid that are dealt out in turn are twice as far from their split as from the other."""
LARGEST = 1e100
"""Larger numbers count as this one: the square of a difference must be a number."""
ROWS_OF_SPREAD = 2000
"""Of the split, by which spreads are measured."""
EXAMPLES = 5
SKETCH_SIZE = 64
"""Numbers at most that represent a sample's floating-point values."""
VALUES_READ = 1024
"""Of one sample, for its sketch: enough to distinguish samples, and a bound on the cost."""
SIZE_BYTES = 8
ROWS_AT_ONCE = 256
"""Rows that are folded together: as many as fit into a core's cache."""
KNOWN_TO_NUMPY = frozenset({torch.float16, torch.float32, torch.float64})
LABELS = ("labels", "label", "target", "y")
"""Names of a target in samples that are mappings; the first that is there."""

Numbers = np.ndarray[Any, np.dtype[np.float64]]

SIGNS = np.random.default_rng(0).choice([-1, 1], VALUES_READ)


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
    """Distinct inputs of the second split, without those that are also in the first."""
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

    Their distance is the root mean square of the differences; those that differ where they must be equal are far apart.
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
        """Return the distinct points, (inputs, width + 1), the first row of each, and its number of rows."""
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
    # values that hardly vary must not separate copies that were altered there
    return np.maximum(spread, 0.01 * np.median(varied)) if len(varied) else np.ones_like(spread)


def _finite(values: Numbers) -> Numbers:
    """Return the values, in their own memory, without those that no square is a number of."""
    np.nan_to_num(values, copy=False)
    return np.clip(values, -LARGEST, LARGEST, out=values)


@dataclass(frozen=True)
class Sketches:
    """The sketches of a split's samples, in order."""

    indices: list[int] = field(default_factory=list)
    exact: list[bytes] = field(default_factory=list)
    """How many floating-point values each has, and the digest of all that must be equal."""
    numbers: list[Array] = field(default_factory=list)
    """As wide as the sample's own, where those are not folded."""
    matrix: Array | None = None
    """The numbers of rows of tensors, (samples, width), instead."""

    def note(self, index: int, sample: Any) -> None:
        """Keep the sketch of a sample."""
        exact: list[bytes] = []
        floating: list[Array] = []
        _collect(inputs_of(sample), exact, floating)
        flat = floating[0] if len(floating) == 1 else np.concatenate([np.empty(0), *floating])
        self.indices.append(index)
        self.numbers.append(_folded(flat))
        self.exact.append(
            flat.size.to_bytes(SIZE_BYTES, "big") + (blake3(b"".join(exact)).digest(16) if exact else b"")
        )

    @classmethod
    def of_rows(cls, samples: TensorSamples, rows: Array) -> Sketches:
        """Return the sketches of the samples at `rows`, made as whole arrays; those that `note` makes one by one."""
        exact: list[Array] = []
        floating: list[Array] = []
        tensors = samples.gather(torch.from_numpy(rows))
        for tensor in tensors[:-1] or tensors:
            values = _to_numpy(tensor).reshape(len(rows), -1)
            if values.dtype.kind == "c":
                floating += [values.real, values.imag]
            elif _is_floating(values):
                floating.append(values)
            else:
                held = np.ascontiguousarray(_widened(values)).view(np.uint8)
                size = np.frombuffer(held.shape[1].to_bytes(SIZE_BYTES, "big"), dtype=np.uint8)
                exact += [np.tile(size, (len(rows), 1)), held]
        flat = floating[0] if len(floating) == 1 else np.hstack([np.empty((len(rows), 0)), *floating])
        begin = flat.shape[1].to_bytes(SIZE_BYTES, "big")
        marks = [begin + blake3(row).digest(16) for row in np.hstack(exact)] if exact else [begin] * len(rows)
        return cls(rows.tolist(), marks, matrix=_folded(flat))

    def by_width(self, rows: Array) -> dict[int, Array]:
        """Return rows of samples grouped by how many numbers represent them."""
        if self.matrix is not None:
            return {self.matrix.shape[1]: rows} if len(rows) else {}
        widths = np.array([len(numbers) for numbers in self.numbers], dtype=np.int64)[rows]
        return {int(width): rows[widths == width] for width in np.unique(widths)}

    def stacked(self, rows: Array) -> Numbers:
        """Return the numbers of samples of one width: (rows, width)."""
        if self.matrix is not None:
            return self.matrix[rows].astype(np.float64)
        return np.concatenate([self.numbers[row] for row in rows.tolist()], dtype=np.float64).reshape(len(rows), -1)


def _folded(flat: Array) -> Array:
    """Return at most SKETCH_SIZE numbers: the values themselves, or sums of some of them under random signs.

    Args:
        flat: the values of one sample, (values,), or of several, (samples, values).
    """
    size = flat.shape[-1]
    if size <= SKETCH_SIZE:
        return flat.copy()  # the sample's own memory may change
    places, signs = _fold(size)
    if flat.ndim > 1 and len(flat) > ROWS_AT_ONCE:
        return np.concatenate([_folded(flat[n : n + ROWS_AT_ONCE]) for n in range(0, len(flat), ROWS_AT_ONCE)])
    sums: Numbers = (flat.take(places, axis=-1) * signs).reshape(*flat.shape[:-1], SKETCH_SIZE, -1).sum(axis=-1)
    return sums


@lru_cache(maxsize=64)
def _fold(size: int) -> tuple[Array, Numbers]:
    """Return which values of a sample are read, all different and all over it, and under which signs.

    Zeros fill up to whole rows. Cheap, since recordings may each have a length of their own.
    """
    step = int(0.618 * size)
    while gcd(step, size) > 1:
        step += 1
    read = min(size, VALUES_READ)
    places, signs = np.zeros((2, read + -read % SKETCH_SIZE), dtype=np.int64)
    places[:read] = np.arange(read) * step % size
    signs[:read] = SIGNS[:read]
    return places, signs.astype(np.float64)


def inputs_of(sample: Any) -> Any:
    """Return a sample without its target."""
    if isinstance(sample, tuple | list) and len(sample) > 1:
        return sample[0] if len(sample) == 2 else sample[:-1]
    named = sample.to_dict() if hasattr(sample, "to_dict") else sample
    if isinstance(named, Mapping):
        return {key: value for key, value in named.items() if key not in LABELS} or named
    return sample


def target_of(sample: Any) -> Any:
    """Return a sample's target; None where it has none."""
    if isinstance(sample, Mapping):
        return next((sample[key] for key in LABELS if key in sample), None)
    return sample[-1] if isinstance(sample, tuple | list) and len(sample) > 1 else None


def _collect(value: Any, exact: list[bytes], floating: list[Array]) -> None:
    """Append a value's floating-point numbers and 8-bit pixels to `floating`, and the bytes of all else to `exact`."""
    if isinstance(value, torch.Tensor):
        value = _to_numpy(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        _collect_array(value, exact, floating)
    elif isinstance(value, float):
        floating.append(np.array([value]))
    elif (parts := _parts(value)) is not None:
        for part in parts:
            _collect(part, exact, floating)
    else:
        _keep(value if isinstance(value, bytes) else repr(value).encode(), exact)


def _to_numpy(tensor: torch.Tensor) -> Array:
    known = tensor.dtype in KNOWN_TO_NUMPY or not tensor.is_floating_point()
    return (tensor if known else tensor.float()).numpy(force=True)


def _collect_array(value: Array | np.generic, exact: list[bytes], floating: list[Array]) -> None:
    if _is_floating(value):
        floating.append(value.ravel())
    elif value.dtype.kind == "c":
        floating.extend((value.real.ravel(), value.imag.ravel()))
    else:
        _keep(_widened(value).tobytes(), exact)


def _is_floating(value: Array | np.generic) -> bool:
    return value.dtype.kind == "f" or value.dtype == np.uint8


def _widened(value: Array | np.generic) -> Array | np.generic:
    """Return whole numbers as int64, so that the same ones of two widths are equal."""
    return value.astype(np.int64, copy=False) if value.dtype.kind in "iub" else value


def _parts(value: Any) -> Iterable[Any] | None:
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if hasattr(value, "to_dict"):
        value = value.to_dict()  # a graph of torch_geometric, for example
    if isinstance(value, Mapping):
        return [value[key] for key in sorted(value, key=str)]
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else None


def _keep(part: bytes, exact: list[bytes]) -> None:
    exact += [len(part).to_bytes(SIZE_BYTES, "big"), part]
