"""Samples that live in memory as tensors: a batch is one gather, without Python work per sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

IGNORED = -100
"""Targets of this value do not count (losses of class numbers)."""


class InMemory(Dataset[Any]):
    """Samples of which a whole batch can be taken at once, and that draw nothing at random."""

    def __len__(self) -> int:
        raise NotImplementedError

    def gather(self, indices: Sequence[int] | Tensor) -> Any:
        """Return the batch of the samples at `indices`."""
        raise NotImplementedError

    def each(self, indices: Sequence[int]) -> Iterator[Any]:
        """Yield the samples at `indices`, one by one."""
        return (self[index] for index in indices)


class TensorSamples(InMemory):
    """Tensors with equal first dimension; sample i is the tuple of their rows i.

    A part of them (`subset`) shares their memory: it holds the numbers of its rows.
    """

    def __init__(self, *tensors: Tensor, rows: Tensor | None = None) -> None:
        sizes = {len(tensor) for tensor in tensors}
        if len(sizes) != 1:
            raise ValueError(f"tensors must have equally many rows, got {sorted(sizes)}")
        self.base = tensors
        """All rows, those of other parts too."""
        self.rows = rows
        """Which of them are the samples, (samples,); None: all."""

    def __len__(self) -> int:
        return len(self.base[0]) if self.rows is None else len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        row = index if self.rows is None else int(self.rows[index])
        return tuple(tensor[row] for tensor in self.base)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The samples' rows of every tensor; of a part a copy, so that `column` is better where one is enough."""
        return self.gather(slice(None))

    def column(self, number: int) -> Tensor:
        """Return the samples' rows of one tensor."""
        return self.base[number] if self.rows is None else self.base[number][self.rows.long()]

    def gather(self, indices: Sequence[int] | Tensor | slice) -> tuple[Tensor, ...]:
        """Return a batch: the rows at `indices` of every tensor; views of them for a slice of all samples."""
        rows: Tensor | slice
        if isinstance(indices, slice):
            rows = indices if self.rows is None else self.rows[indices].long()
        else:
            rows = torch.as_tensor(indices, dtype=torch.int64)
            rows = rows if self.rows is None else self.rows[rows].long()
        return tuple(tensor[rows] for tensor in self.base)

    def subset(self, indices: Sequence[int] | Tensor) -> TensorSamples:
        """Return the chosen samples, in the same memory."""
        chosen = torch.as_tensor(indices)
        return TensorSamples(*self.base, rows=chosen if self.rows is None else self.rows[chosen.long()])


def in_memory(data: object) -> object:
    """Return a plain `TensorDataset` as `TensorSamples`, and anything else as it is."""
    if type(data) is TensorDataset:
        return TensorSamples(*data.tensors)
    return data
