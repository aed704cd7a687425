"""Samples that live in memory as tensors: a batch is one gather, without Python work per sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset


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
    """Tensors with equal first dimension; sample i is the tuple of their rows i."""

    def __init__(self, *tensors: Tensor) -> None:
        sizes = {len(tensor) for tensor in tensors}
        if len(sizes) != 1:
            raise ValueError(f"tensors must have equally many rows, got {sorted(sizes)}")
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def gather(self, indices: Sequence[int] | Tensor) -> tuple[Tensor, ...]:
        """Return a batch: the rows at `indices` of every tensor."""
        rows = torch.as_tensor(indices, dtype=torch.int64)
        return tuple(tensor[rows] for tensor in self.tensors)

    def subset(self, indices: Sequence[int] | Tensor) -> TensorSamples:
        """Return the chosen samples as their own in-memory data."""
        return TensorSamples(*self.gather(indices))


def in_memory(data: object) -> object:
    """Return a plain `TensorDataset` as `TensorSamples`, and anything else as it is."""
    if type(data) is TensorDataset:
        return TensorSamples(*data.tensors)
    return data
