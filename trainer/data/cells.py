"""Hashes of a table's cells, by which a row is known from one file to the next. Free of torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.canonical import number_of

CELL = ">u4"
"""Type of a cell's hash."""


def hashed_cells(inputs: Array, columns: Sequence[tuple[int, Mapping[str, int] | None]]) -> Array:
    """Return a hash of each cell, (rows, columns), of inputs (rows, numbers).

    Args:
        columns: of each how many numbers it takes, and of a category the code of each text. Its hash is of the text,
            since the code changes with the order of the rows and as data grow.
    """
    found, place = np.empty((len(inputs), len(columns)), dtype=CELL), 0
    for number, (width, codes) in enumerate(columns):
        part = inputs[:, place : place + width]
        found[:, number] = hashed(part if codes is None else by_text(part[:, 0], codes))
        place += width
    return found


def by_text(codes: Array, values: Mapping[str, int]) -> Array:
    """Return a number of each code's text, (rows, 1); of a missing one, or of none, NaN."""
    numbers = np.full(max(values.values(), default=-1) + 2, np.nan)
    for text, code in values.items():
        numbers[code] = number_of(text) % 2**52
    known = np.where((codes >= 0) & (codes < len(numbers) - 1), codes, len(numbers) - 1)
    return np.asarray(numbers[known.astype(np.int64)])[:, None]


def cell_of(text: str) -> bytes:
    """Return the hash of a cell that holds a category, as `hashed_cells` has it."""
    return hashed(by_text(np.zeros(1), {text: 0})).astype(CELL).tobytes()


def group_mark(value: Any) -> bytes:
    """Return 7 bytes by which a group is known, however its name is written: 7, "7.0" and "007" are one."""
    text = str(value).strip()
    with suppress(ValueError):
        number = float(text)
        text = repr(number) if abs(number) < 2**53 else text  # beyond it numbers that differ are one float
    return number_of(text).to_bytes(7, "big")


def hashed(part: Array) -> Array:
    """Return 32 bits of a hash of each row, (rows,), of numbers (rows, width); all NaN are one."""
    bits = np.where(np.isnan(part), np.nan, part + 0.0).view(np.uint64)
    found = np.zeros(len(part), dtype=np.uint64)
    for column in bits.T:
        found = mixed(found + column)
    return (found >> np.uint64(32)).astype(np.uint32)


def mixed(hashes: Array) -> Array:
    """Return hashes whose highest bits depend on all bits: the finalizer of SplitMix64 (Steele et al. 2014)."""
    found: Array = hashes ^ (hashes >> np.uint64(30))
    found = found * np.uint64(0xBF58476D1CE4E5B9)
    found ^= found >> np.uint64(27)
    found = found * np.uint64(0x94D049BB133111EB)
    found ^= found >> np.uint64(31)
    return found
