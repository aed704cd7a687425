"""Marks by which a row is known from one plan to the next: its content, its inputs, and its place in the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from trainwright.trainer.base.canonical import digest_json, number_of
from trainwright.trainer.data import cache, rows
from trainwright.trainer.data.tensors import TensorSamples

Array = np.ndarray[Any, Any]
NOWHERE = bytes(8)
"""In place of a row's place."""
AT_ONCE = 1 << 15
PLACED = frozenset({"csv", "jsonl", "parquet", "orc"})
"""Sources that read all rows of their files."""


@dataclass(frozen=True)
class Marks:
    """Of rows in their order: 16 bytes of content and inputs each, 8 bytes of the place."""

    contents: list[bytes]
    inputs: list[bytes]
    places: list[bytes]
    source: str = ""
    """Digest of the files that the places are in; empty where rows have none."""


class Sides(Protocol):
    """What earlier plans know of rows: a run has it from its launcher (trainer/run/kept_sides.py)."""

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


def marks_of(samples: TensorSamples, names: list[str] | None, source: str, chosen: Array | None = None) -> Marks:
    """Return the marks of samples in memory, or of those at `chosen`; classes by their `names`."""
    known = by_class_name(samples, names)
    chosen = np.arange(len(samples)) if chosen is None else chosen
    contents, inputs = (_digests(one, chosen) for one in (known, rows.without_targets(known)))
    numbers = (1 + places_of(samples)[chosen]).astype(">u8") if source else np.zeros(len(chosen), ">u8")
    return Marks(contents, inputs, numbers.view("V8").tolist(), source)


def marks_from(contents: Sequence[str], inputs: Sequence[str]) -> Marks:
    """Return the marks of samples that were read one by one, by their digests of 32 hex digits."""
    return Marks([*map(bytes.fromhex, contents)], [*map(bytes.fromhex, inputs)], [NOWHERE] * len(contents))


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
