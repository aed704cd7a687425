"""Blocks of a recorded series: means and extremes over spans of steps, kept between readings: each reads what is new.

A block spans a power of two of steps and begins at a multiple of it, so that neighbours merge without reading a row,
and a series that grows has the blocks that reading all of it would give.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

FINEST = 4096
"""Most blocks that are kept of a series; a picture has fewer columns."""
MAX_SERIES = 128
"""Series that one process keeps blocks of, of all runs together: about 0.5 MB each."""


class Block(NamedTuple):
    """Finite values of a span of steps."""

    step: int
    """Last step that has one."""
    values: int
    total: float
    low: float
    high: float

    def joined(self, other: Block) -> Block:
        """Return the block of both spans."""
        return Block(
            max(self.step, other.step),
            self.values + other.values,
            self.total + other.total,
            min(self.low, other.low),
            max(self.high, other.high),
        )


Span = Callable[[int, int], Block | None]
"""Reads the block of the steps from the first (included) to the second (excluded); None where there is no value."""


@dataclass
class Blocks:
    """Blocks of one series, by their number: the steps from number << shift on."""

    shift: int = 0
    by_number: dict[int, Block] = field(default_factory=dict)
    last_step: int = -1
    """Up to which steps were read; the block that holds it may have been incomplete."""

    def extend(self, low: int, high: int, read: Span) -> None:
        """Read what the steps up to `high` have added; `low` is the first step of the series."""
        while (high >> self.shift) - (low >> self.shift) >= FINEST:
            self.shift += 1
            self.by_number = _merged(self.by_number, 1)
        first = max(low, self.last_step) >> self.shift
        for number in range(first, (high >> self.shift) + 1):
            block = read(number << self.shift, (number + 1) << self.shift)
            if block is not None:
                self.by_number[number] = block
        self.last_step = high

    def at_most(self, count: int) -> Iterator[tuple[int, float, float, float]]:
        """Give at most `count` buckets in order: last step, mean, lowest, highest."""
        numbers = self.by_number.keys()
        shift = 0
        while numbers and (max(numbers) >> shift) - (min(numbers) >> shift) >= count:
            shift += 1
        merged = _merged(self.by_number, shift) if shift else self.by_number
        for number in sorted(merged):
            block = merged[number]
            yield block.step, block.total / block.values, block.low, block.high


def _merged(blocks: dict[int, Block], shift: int) -> dict[int, Block]:
    merged: dict[int, Block] = {}
    for number, block in blocks.items():
        known = merged.get(number >> shift)
        merged[number >> shift] = block if known is None else known.joined(block)
    return merged


@dataclass
class _Kept:
    identity: tuple[int, ...]
    moment: float | None = None
    """When the last step that was read had been recorded."""
    blocks: Blocks = field(default_factory=Blocks)
    lock: threading.Lock = field(default_factory=threading.Lock)


_series: OrderedDict[tuple[Path, str], _Kept] = OrderedDict()
_lock = threading.Lock()


@contextmanager
def kept_blocks(
    path: Path, key: str, identity: tuple[int, ...], high: int, moment: Callable[[int], float | None]
) -> Iterator[Blocks]:
    """Give the blocks that were read of a series before, to be extended; empty ones where they no longer hold.

    Args:
        path: the metrics' file.
        key: the series.
        identity: of the file: rows are only appended while it stays the same.
        high: last step of the series now. A series that became shorter was written anew.
        moment: gives when a step was recorded; a resumed run records its last steps again.
    """
    with _lock:
        kept = _series.get((path, key))
        if kept is None or kept.identity != identity:
            kept = _series[path, key] = _Kept(identity)
        _series.move_to_end((path, key))
        while len(_series) > MAX_SERIES:
            _series.popitem(last=False)
    with kept.lock:
        last = kept.blocks.last_step
        if last > high or (last >= 0 and moment(last) != kept.moment):
            kept.blocks = Blocks()
        yield kept.blocks
        kept.moment = moment(high)
