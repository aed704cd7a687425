"""Rows that planning fixed, read from .npy files: each is checked by its SHA-256."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .intervals import Resampling

Array = np.ndarray[Any, Any]
PIECE_BYTES = 1 << 20
IN_MEMORY_BYTES = 1 << 28
"""Of an array that is read whole; a larger one is mapped, after its file was read once for the digest."""


class RefusalError(Exception):
    """A reason why nothing can be evaluated, and what resolves it: one sentence each."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


@dataclass(frozen=True)
class Column:
    """One input, or the target, of all rows: an array (rows, ...), or rows of their own shapes one behind the other."""

    values: Array
    shapes: Array | None = None
    """(rows, dimensions), where shapes differ."""
    ends: Array | None = None
    """Where each row ends among the values, (rows,), where shapes differ."""
    order: Array | None = None
    """Places of the rows among the values, (rows,), where they are not in their own order."""

    @property
    def ordered(self) -> Array:
        """All rows of one shape, (rows, ...)."""
        return self.values if self.order is None else self.values[self.order]

    def __len__(self) -> int:
        return len(next(one for one in (self.order, self.shapes, self.values) if one is not None))

    def alike(self, start: int, stop: int) -> int:
        """Return where the rows from `start` cease to have one shape, `stop` at most."""
        if self.shapes is None:
            return stop
        other = np.flatnonzero((self.shapes[start:stop] != self.shapes[start]).any(axis=1))
        return start + int(other[0]) if len(other) else stop

    def rows(self, start: int, stop: int) -> Array:
        """Return the rows, (stop - start, ...), which have one shape."""
        if self.shapes is None or self.ends is None:
            return self.values[start:stop] if self.order is None else self.values[self.order[start:stop]]
        first = int(self.ends[start - 1]) if start else 0
        shape = tuple(int(size) for size in self.shapes[start])
        return self.values[first : int(self.ends[stop - 1])].reshape(stop - start, *shape)


@dataclass(frozen=True)
class Split:
    """The rows of one split that were kept, and how many it has."""

    size: int
    rows: int
    is_sample: bool
    inputs: dict[str, Column]
    """By the name of the model's input, in the order of the call."""
    target: Column | None
    bytes_per_target: float = 1.0
    groups: Array | None = None
    """Number of each row's group, (rows,); None: each row is one."""
    grouped_by: str = "groups"
    """What the groups are."""
    whole_groups: bool = False
    """Whether groups were kept whole: all of them, or a sample."""
    order: Array | None = None
    """Places of the rows among those that were kept, (rows,), where they are not in their own order."""
    chosen: Array | None = None
    """Places in the split of the rows that were kept, (rows,), where not all were."""

    def drawn(self, seed: int, only: Sequence[int] | None = None) -> Split:
        """Return the rows in an order drawn by a seed: a program could know the neighbours of a row in a sorted file.

        Rows of shapes of their own stay in theirs: in another their batches would be of one row each.

        Args:
            only: places in the split of the rows to take; None: all that were kept.

        Raises:
            RefusalError: none is left, or rows of shapes of their own are to be left out.
        """
        places = np.arange(self.rows)
        if only is not None:
            places = np.flatnonzero(np.isin(self.places, list(only)))
        if not len(places):
            raise RefusalError("No row is left to compare on.", "Compare after new rows have come.")
        columns = [*self.inputs.values(), *([] if self.target is None else [self.target])]
        if any(column.shapes is not None for column in columns):
            if len(places) < self.rows:
                raise RefusalError("Rows of different shapes cannot be left out one by one.", "Compare other versions.")
            return self
        order = places[np.random.default_rng(seed).permutation(len(places))]
        inputs = {name: replace(column, order=order) for name, column in self.inputs.items()}
        target = None if self.target is None else replace(self.target, order=order)
        groups = None if self.groups is None else self.groups[order]
        return replace(self, rows=len(order), inputs=inputs, target=target, groups=groups, order=order)

    @property
    def places(self) -> Array:
        """Places in the split of the rows, (rows,), in their order here."""
        order = np.arange(self.rows) if self.order is None else self.order
        return order if self.chosen is None else self.chosen[order]

    @property
    def ranked(self) -> Array | None:
        """Number of each row's group, (rows,), where a column has it and the groups are whole: what can be ranked."""
        return self.groups if self.whole_groups and self.grouped_by == "groups" else None

    @property
    def resampling(self) -> Resampling:
        """How the rows are drawn anew: those of a sample as it was drawn, one by one or in whole groups."""
        return Resampling(self.rows, self.is_sample, self.groups if self.whole_groups else None)

    def batch(self, start: int, most: int) -> tuple[int, dict[str, Array], Array | None]:
        """Return the end of the rows from `start` that have one shape, `most` at most; their inputs and targets."""
        stop = min(start + most, self.rows)
        for column in (*self.inputs.values(), *([] if self.target is None else [self.target])):
            stop = column.alike(start, stop)
        inputs = {name: column.rows(start, stop) for name, column in self.inputs.items()}
        return stop, inputs, None if self.target is None else self.target.rows(start, stop)


def open_split(folder: Path, record: Mapping[str, Any], split: str) -> Split:
    """Return the rows of a split by its record (FixedRows), below `folder`.

    Raises:
        RefusalError: there are none, a file lies elsewhere, is damaged, or is no plain array.
    """
    if record.get("problem"):
        raise RefusalError(
            str(record["problem"]), str(record.get("remedy") or "Fix the rows again: run planning's smoke run.")
        )
    found = record.get("splits", {}).get(split)
    if not found or not found.get("rows"):
        raise RefusalError(
            f"No rows of the {split} split were fixed.", "Run planning's smoke run again on data that has this split."
        )
    names = found.get("order") or [*found["inputs"]]
    if sorted(names) != sorted(found["inputs"]):
        raise RefusalError(f"The record of the {split} split names other inputs than it holds.", RENEWED)
    inputs = {name: _column(folder, found["inputs"][name]) for name in names}
    target = _column(folder, found["target"]) if found.get("target") else None
    size, rows = int(found.get("size") or found["rows"]), int(found["rows"])
    if any(len(column) != rows for column in (*inputs.values(), *([target] if target else []))):
        raise RefusalError(f"The arrays of the {split} split do not have {rows} rows each.", RENEWED)
    per_target = float(found.get("bytes_per_target") or 1.0)
    groups = np.asarray(read_array(folder, found["groups"])) if found.get("groups") else None
    if groups is not None and groups.shape != (rows,):
        raise RefusalError(f"The groups of the {split} split are not of {rows} rows.", RENEWED)
    is_sample, grouped_by = found.get("chosen") is not None or rows < size, found.get("grouped_by", "groups")
    whole_groups = not is_sample or bool(found.get("whole_groups"))
    chosen = np.asarray(read_array(folder, found["chosen"])) if found.get("chosen") else None
    return Split(size, rows, is_sample, inputs, target, per_target, groups, grouped_by, whole_groups, chosen=chosen)


RENEWED = "Take the rows from a backup, or return to planning and run its smoke run again: it fixes them anew."


def _column(folder: Path, record: Mapping[str, Any]) -> Column:
    values = read_array(folder, record)
    if not record.get("shapes"):
        return Column(values)
    shapes = np.asarray(read_array(folder, record["shapes"]), dtype=np.int64)
    ends = np.cumsum(shapes.prod(axis=1, dtype=np.int64)) if shapes.ndim == 2 else np.zeros(0, dtype=np.int64)
    if not len(ends) or values.ndim != 1 or (shapes < 0).any() or int(ends[-1]) != len(values):
        raise RefusalError(f"The shapes of the rows in {record['path']} do not fit their values.", RENEWED)
    return Column(values, shapes, ends)


def read_array(folder: Path, record: Mapping[str, Any]) -> Array:
    """Return one array of the record; a large one memory-mapped.

    Raises:
        RefusalError: its file lies outside the folder, is not the recorded one, or holds anything but plain values.
    """
    path, digest = confined(folder, str(record["path"])), str(record["digest"])
    shape = [int(size) for size in record["shape"]]
    try:
        if path.stat().st_size <= IN_MEMORY_BYTES:
            values: Array = np.load(io.BytesIO(checked(path, digest, record["path"], RENEWED)), allow_pickle=False)
        else:
            require_digest(path, digest, record["path"], RENEWED)
            values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise RefusalError(f"{record['path']} is no plain .npy array: {str(error)[:120]}.", RENEWED) from error
    if list(values.shape) != shape or str(values.dtype) != record["dtype"] or values.dtype.hasobject:
        raise RefusalError(
            f"{record['path']} holds {values.dtype} {list(values.shape)}; recorded is {record['dtype']} {shape}.",
            RENEWED,
        )
    return values


def confined(folder: Path, name: str) -> Path:
    """Return a file below the folder, links followed. Raises RefusalError when it lies elsewhere or is missing."""
    root = folder.resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root) or path == root:
        raise RefusalError(f"{name!r} lies outside the folder that it belongs to.", "Name a file below that folder.")
    if not path.is_file():
        raise RefusalError(f"There is no file {name!r} in the folder.", RENEWED)
    return path


def checked(path: Path, digest: str, name: object, remedy: str) -> bytes:
    """Return the file's bytes, read once: what is used was compared. Raises RefusalError as `require_digest`."""
    content = path.read_bytes()
    _require_same(hashlib.sha256(content).hexdigest(), digest, name, remedy)
    return content


def require_digest(path: Path, digest: str, name: object, remedy: str) -> None:
    """Raise RefusalError unless the file's SHA-256 is `digest` (hexadecimal)."""
    found = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE_BYTES):
            found.update(piece)
    _require_same(found.hexdigest(), digest, name, remedy)


def _require_same(found: str, digest: str, name: object, remedy: str) -> None:
    if found != digest:
        raise RefusalError(f"{name} is not the file that was recorded: its SHA-256 is {found}.", remedy)
