"""Samples that live in memory as tensors, of which a batch is one gather; and batches on their way to the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

IGNORED = -100
"""Targets of this value do not count (losses of class numbers)."""


class InMemory(Dataset[Any]):
    """Samples that can be indexed by batch and draw nothing at random."""

    def __len__(self) -> int:
        raise NotImplementedError

    def gather(self, indices: Sequence[int] | Tensor) -> Any:
        """Return the batch of the samples at `indices`, (samples,)."""
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
        """The samples' rows of every tensor, (samples, ...); a part's are a copy: where one is enough, use `column`."""
        return self.gather(slice(None))

    def column(self, number: int) -> Tensor:
        """Return the samples' rows of one tensor, (samples, ...)."""
        return self.base[number] if self.rows is None else self.base[number][self.rows.long()]

    def gather(self, indices: Sequence[int] | Tensor | slice) -> tuple[Tensor, ...]:
        """Return a batch: the rows at `indices`, (rows, ...), of every tensor; views of them for a slice of all."""
        rows: Tensor | slice
        if isinstance(indices, slice):
            rows = indices if self.rows is None else self.rows[indices].long()
        else:
            rows = torch.as_tensor(indices, dtype=torch.int64)
            rows = rows if self.rows is None else self.rows[rows].long()
        return tuple(tensor[rows] for tensor in self.base)

    def subset(self, indices: Sequence[int] | Tensor) -> TensorSamples:
        """Return the samples at `indices`, (chosen,), in the same memory."""
        chosen = torch.as_tensor(indices)
        return TensorSamples(*self.base, rows=chosen if self.rows is None else self.rows[chosen.long()])


def in_memory(data: object) -> object:
    """Return a plain `TensorDataset` as `TensorSamples`, and anything else as it is."""
    if type(data) is TensorDataset:
        return TensorSamples(*data.tensors)
    return data


def to_device(batch: Any, device: torch.device) -> Any:
    """Return the batch with its tensors on the device; objects with a `.to` of their own are moved by it."""
    if device.type == "cpu":
        return batch
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping) and not hasattr(batch, "to"):
        return {name: to_device(value, device) for name, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(to_device(value, device) for value in batch)
    return batch.to(device) if hasattr(batch, "to") else batch


def batch_size(batch: Any) -> int:
    """Return the first dimension of the first tensor in the batch, or 1."""
    if isinstance(batch, Tensor):
        return len(batch) if batch.dim() else 1
    parts = list(batch.values()) if isinstance(batch, Mapping) else batch if isinstance(batch, tuple | list) else []
    return batch_size(parts[0]) if len(parts) else 1
