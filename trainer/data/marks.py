"""Marks by which a row is known from one plan to the next: its content, its inputs, and its place in the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.canonical import digest_json, number_of
from trainwright.trainer.data import cache, rows
from trainwright.trainer.data.cells import CELL, by_text, hashed, hashed_cells
from trainwright.trainer.data.table.schema import Column
from trainwright.trainer.data.tensors import TensorSamples

NOWHERE = bytes(8)
"""In place of a row's place."""
NO_HEAD = bytes(8)
"""In place of the hash by which rows of large data are drawn."""
TARGET = "(target)"
"""Name of the cell that is a row's target, or its targets."""
MAX_CELLS = 1 << 22
"""Of which hashes are kept."""
AT_ONCE = 1 << 15
PLACED = frozenset({"csv", "jsonl", "parquet", "orc"})
"""Sources that read all rows of their files."""


@dataclass(frozen=True)
class Marks:
    """Records of rows, in their order, as trainer/run/split_rows.py reads them."""

    records: list[bytes]
    """Of 8 bytes of a hash, 16 of the content's digest, 16 of the inputs' digest, 8 of the place, 4 of each cell."""
    columns: list[str]
    """Names of the cells."""
    source: str = ""
    """Digest of the files that the places are in; empty where rows have none."""


class Sides(Protocol):
    """What earlier plans know of rows: a run has it from its launcher (trainer/run/split_rows.py)."""

    def of(self, marks: Marks) -> tuple[Sequence[bool], Sequence[bool]]:
        """Return which rows were test rows of an earlier plan, and which were its other rows, (rows,) each."""
        ...


_sides: Sides | None = None


def use(sides: Sides | None) -> None:
    """Let rows keep these sides in this process, and in its forks, wherever data are divided."""
    global _sides  # noqa: PLW0603 - one run per process
    _sides = sides


def current() -> Sides | None:
    """Return the sides that rows keep in this process."""
    return _sides


def source_of(name: str, files: Sequence[Path], size: int, skipped: Sequence[str]) -> str:
    """Return the digest of the files whose rows a table's samples are by number; empty where they are not.

    Args:
        name: of the source.
        files: that were read.
        size: rows that were read.
        skipped: rows without a target, which were left out.
    """
    if name not in PLACED:
        return ""
    return digest_json([[cache.current().digests.of(path) for path in files], size, list(skipped)])


@dataclass(frozen=True)
class Known:
    """What a source knows of samples in memory."""

    class_names: list[str] | None = None
    source: str = ""
    """Digest of the files that the samples' rows are in, by number."""
    columns: Sequence[Column] = ()
    """Of a table, in the order of the inputs, whose cells are told apart."""

    @classmethod
    def of(cls, found: Any, size: int) -> Known:
        """Return what samples loaded, or splits of them, say of `size` rows; of very many cells none are told apart."""
        columns = found.schema.features if found.schema is not None and found.series is None else []
        return cls(found.class_names, found.placed_in, columns if size * len(columns) <= MAX_CELLS else ())


def marks_of(samples: TensorSamples, known: Known, chosen: Array | None = None, heads: Array | None = None) -> Marks:
    """Return the marks of samples in memory, or of those at `chosen`, with the hashes by which these were drawn."""
    named = by_class_name(samples, known.class_names)
    chosen = np.arange(len(samples)) if chosen is None else chosen
    contents, inputs = (_digests(one, chosen) for one in (named, rows.without_targets(named)))
    numbers = (1 + places_of(samples)[chosen]).astype(">u8") if known.source else np.zeros(len(chosen), ">u8")
    first = np.zeros(len(chosen), ">u8") if heads is None else heads.astype(">u8")
    columns, cells = cells_of(samples, known, chosen)
    parts = (first.view("V8").tolist(), contents, inputs, numbers.view("V8").tolist(), cells)
    return Marks([*map(b"".join, zip(*parts, strict=True))], columns, known.source)


def marks_from(contents: Sequence[str], inputs: Sequence[str]) -> Marks:
    """Return the marks of samples that were read one by one, by their digests of 32 hex digits."""
    pairs = (map(bytes.fromhex, pair) for pair in zip(contents, inputs, strict=True))
    return Marks([NO_HEAD + one + other + NOWHERE for one, other in pairs], [])


def cells_of(samples: TensorSamples, known: Known, chosen: Array) -> tuple[list[str], list[bytes]]:
    """Return the names of a table's columns and TARGET, and of each row at `chosen` a hash of each cell, in this order.

    A category's hash is of its text, since its number changes with the order of the rows and as data grow.
    """
    inputs, rows_at = samples.raw.base[0], torch.from_numpy(places_of(samples)[chosen])
    if not known.columns or inputs.dim() != 2:
        return [], [b""] * len(chosen)
    held = inputs[rows_at].double().numpy()
    found = np.empty((len(chosen), len(known.columns) + 1), dtype=CELL)
    found[:, :-1] = hashed_cells(
        held, [(one.width, one.values if one.kind == "category" else None) for one in known.columns]
    )
    targets = samples.raw.base[-1][rows_at].double().numpy().reshape(len(chosen), -1)
    if known.class_names is not None and targets.shape[1] == 1:
        targets = by_text(targets[:, 0], {name: number for number, name in enumerate(known.class_names)})
    found[:, -1] = hashed(targets)
    width = found.shape[1] * found.itemsize
    return [*(column.name for column in known.columns), TARGET], found.view(f"V{width}").reshape(-1).tolist()


def places_of(samples: TensorSamples) -> Array:
    """Return the numbers of the samples' rows in the files, (samples,)."""
    return np.arange(len(samples)) if samples.rows is None else samples.rows.numpy()


def by_class_name(samples: TensorSamples, names: list[str] | None) -> TensorSamples:
    """Return raw samples whose class numbers, which change with a new class, are replaced by numbers of their names."""
    raw = samples.raw
    if names is None or not rows.has_labels(raw):
        return raw
    labels = torch.tensor([number_of(name) for name in names])[raw.base[-1].long()]
    return TensorSamples(*raw.base[:-1], labels, rows=raw.rows)


def _digests(samples: TensorSamples, chosen: Array) -> list[bytes]:
    parts = (chosen[start : start + AT_ONCE] for start in range(0, len(chosen), AT_ONCE))
    return [bytes.fromhex(one) for part in parts for one in rows.row_digests(samples, part)]
