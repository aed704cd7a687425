"""Order of an epoch's samples as arrays, and each process's share of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Subset

from trainwright.trainer.base import seeding


@dataclass(frozen=True)
class Order:
    """In which order an epoch goes through its samples."""

    size: int
    shuffled: Tensor | None = None
    """Indices, (size,) of int32 (int64 from 2 ** 31 samples on); None: from first to last, without an array."""

    def rows(self, start: int, stop: int) -> Tensor:
        """Return the indices at places start to stop of the order, (stop - start,)."""
        if self.shuffled is not None:
            return self.shuffled[start:stop]
        return torch.arange(start, max(min(stop, self.size), start))


BLOCK_BYTES = 1 << 20
"""Of neighbouring samples that are read together."""
BLOCKS_AT_ONCE = 256
"""Blocks whose samples are mixed with each other."""
UNKNOWN_BYTES = 4096
"""What a sample is taken to have that does not lie in arrays."""


class BlockOrder:
    """Shuffled order of samples on a disk: blocks of neighbours in random order, mixed within so many of them.

    A pure function of (seed, epoch), of which no array of all samples is made. Two samples that lie apart come
    together in a batch only where their blocks are mixed; every sample comes once.
    """

    def __init__(self, size: int, seed: int, epoch: int, sample_bytes: int = UNKNOWN_BYTES) -> None:
        self.size, self.key = size, (seed, epoch)
        self.block = max(BLOCK_BYTES // max(sample_bytes, 1), 1)
        self.blocks = seeding.permutation(seed, epoch, -(-size // self.block))
        lengths = np.minimum(size - self.blocks.astype(np.int64) * self.block, self.block)
        windows = np.add.reduceat(lengths, np.arange(0, len(lengths), BLOCKS_AT_ONCE)) if size else lengths
        self.starts = np.concatenate([[0], np.cumsum(windows)])
        """Where the samples of each mixture begin in the order, and its end."""
        self._kept: tuple[int, Tensor] | None = None

    def rows(self, start: int, stop: int) -> Tensor:
        """Return the indices at places start to stop of the order, (stop - start,)."""
        parts = [torch.empty(0, dtype=torch.int64)]
        stop = min(stop, self.size)
        while start < stop:
            number = int(np.searchsorted(self.starts, start, side="right")) - 1
            begin, end = int(self.starts[number]), int(self.starts[number + 1])
            parts.append(self._mixed(number)[start - begin : stop - begin])
            start = end
        return torch.cat(parts)

    def _mixed(self, number: int) -> Tensor:
        if self._kept is None or self._kept[0] != number:
            blocks = self.blocks[number * BLOCKS_AT_ONCE : (number + 1) * BLOCKS_AT_ONCE].astype(np.int64)
            found = (blocks[:, None] * self.block + np.arange(self.block)).reshape(-1)
            found = found[found < self.size]
            np.random.default_rng([*self.key, number]).shuffle(found)
            self._kept = number, torch.from_numpy(found)
        return self._kept[1]


@dataclass(frozen=True)
class Plan:
    """The batches of an epoch, cut out of its order one at a time, when they are fetched."""

    order: Order | BlockOrder
    batch_size: int
    batches: range
    share: Share | None = None

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Tensor]:
        return map(self.rows, self.batches)

    def rows(self, batch: int) -> Tensor:
        """Return the indices of a batch, (samples of the batch,): all, or this process's share."""
        rows = self.order.rows(batch * self.batch_size, (batch + 1) * self.batch_size)
        return rows if self.share is None else rows[self.share.rows(len(rows))]


class Part(Subset[Any]):
    """A part of a map-style data set, chosen by an array of indices; its samples are indexed by plain integers.

    They are without a key, where there is one by which they were divided.
    """

    def __init__(self, dataset: Any, indices: np.ndarray[Any, Any], key: str | None = None) -> None:
        super().__init__(dataset, cast("Sequence[int]", indices))
        self.key = key

    def __getitem__(self, index: Any) -> Any:
        return without_key(self.dataset[int(self.indices[index])], self.key)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return [self[index] for index in indices]


def without_key(sample: Any, key: str | None) -> Any:
    """Return a sample, a mapping without this key where there is one."""
    return sample if key is None else {name: value for name, value in sample.items() if name != key}


@dataclass(frozen=True)
class Share:
    """The part of every batch that one of `processes` takes: neighbouring rows, at most one more than any other."""

    rank: int
    processes: int

    def rows(self, size: int) -> slice:
        """Return this process's rows of a batch of `size`.

        A batch with fewer rows than processes leaves some without any. They compute the full batch, so that every
        process goes through the same exchanges, and count it for nothing (`is_spare`).
        """
        if self.is_spare(size):
            return slice(0, size)
        return slice(self._start(self.rank, size), self._start(self.rank + 1, size))

    def is_spare(self, size: int) -> bool:
        """Return whether this process has no row of a batch of `size`; rank 0 always has one."""
        return self._start(self.rank, size) == self._start(self.rank + 1, size)

    def _start(self, rank: int, size: int) -> int:
        return -(-rank * size // self.processes)
