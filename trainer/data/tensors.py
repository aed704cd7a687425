"""Samples that live in memory as tensors, of which a batch is one gather; and batches on their way to the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

if TYPE_CHECKING:
    from trainwright.trainer.data.fingerprint import SplitRecord

IGNORED = -100
"""Targets of this value do not count (losses of class numbers)."""
LOWEST = -1e30
"""Output of a place that a shorter row has not: never the largest."""


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


KEPT_BYTES = 1 << 28
"""Of prepared rows, up to which all are kept, rather than prepared for each batch."""
PREPARED_AT_ONCE = 1 << 14


class Prepare:
    """Prepares rows of a first tensor for the model, (all rows, ...); small ones are prepared once and kept."""

    def __init__(self, call: Callable[[Tensor], Tensor], raw: Tensor) -> None:
        self.call = call
        self.raw = raw
        self._kept: Tensor | None = None
        self._is_small: bool | None = None

    def __call__(self, rows: Tensor | slice) -> Tensor:
        """Return the prepared rows, (rows, ...)."""
        if self._is_small is None:
            one = self._prepared(self.raw[:1])
            self._is_small = one.numel() * one.element_size() * len(self.raw) <= KEPT_BYTES
        if not self._is_small:
            return self._prepared(self.raw[rows])
        if self._kept is None:
            self._kept = torch.cat([self._prepared(part) for part in torch.split(self.raw, PREPARED_AT_ONCE)])
        return self._kept[rows]

    def forget(self) -> None:
        """Prepare anew, since raw rows have changed."""
        self._kept = None

    def _prepared(self, rows: Tensor) -> Tensor:
        with torch.no_grad():
            return self.call(rows)


class KnownSamples(Dataset[Any]):
    """Samples of which a source knows targets and contents without reading them one by one."""

    @property
    def targets(self) -> Tensor | None:
        """Of the samples, (samples, ...); None where they are read with the inputs."""
        raise NotImplementedError

    @property
    def contents(self) -> list[str]:
        """Digests of the samples' contents, 32 hex digits each, in order."""
        raise NotImplementedError

    @property
    def inputs(self) -> list[str]:
        """Digests of what the samples are without their targets, in order."""
        return self.contents

    def record(self) -> SplitRecord:
        """Return the description of a split, which may read a bounded number of samples."""
        raise NotImplementedError

    def erase(self) -> None:
        """Forget the samples, which other parts of the same source then lack too."""
        raise NotImplementedError


def known_targets(samples: Any) -> Tensor | None:
    """Return the samples' targets, (samples, ...), where they are in memory."""
    if isinstance(samples, KnownSamples):
        return samples.targets
    return samples.column(-1) if isinstance(samples, TensorSamples) and len(samples.base) > 1 else None


class TensorSamples(InMemory):
    """Tensors with equal first dimension; sample i is the tuple of their rows i.

    A part of them (`subset`) shares their memory: it holds the numbers of its rows.

    Args:
        tensors: (all rows, ...) each.
        rows: which of them are the samples, (samples,); None: all.
        prepare: prepares the first tensor's rows on their way out (`gather`, and single samples).
        is_mapped: the tensors' memory is mapped from files (mapped.py) and must not be written to.
    """

    def __init__(
        self, *tensors: Tensor, rows: Tensor | None = None, prepare: Prepare | None = None, is_mapped: bool = False
    ) -> None:
        sizes = {len(tensor) for tensor in tensors}
        if len(sizes) != 1:
            raise ValueError(f"tensors must have equally many rows, got {sorted(sizes)}")
        self.base = tensors
        """All rows, those of other parts too, as the source has them."""
        self.prepare = prepare
        self.is_mapped = is_mapped
        self.rows = rows
        """Which of them are the samples, (samples,); None: all."""

    def __len__(self) -> int:
        return len(self.base[0]) if self.rows is None else len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        row = index if self.rows is None else int(self.rows[index])
        if self.prepare is not None:
            return tuple(tensor[0] for tensor in self._taken(torch.tensor([row])))
        return self._own(self.base, row)

    @property
    def sample_bytes(self) -> int:
        """Bytes of a sample as the source has it."""
        return sum(tensor[:1].numel() * tensor.element_size() for tensor in self.base)

    @property
    def raw(self) -> TensorSamples:
        """The same samples as the source has them, in the same memory."""
        return self if self.prepare is None else TensorSamples(*self.base, rows=self.rows, is_mapped=self.is_mapped)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The samples' rows of every tensor, (samples, ...); a part's are a copy: where one is enough, use `column`."""
        return self.gather(slice(None))

    def column(self, number: int) -> Tensor:
        """Return the samples' rows of one tensor, (samples, ...), as the source has them."""
        return self.base[number] if self.rows is None else self.base[number][self.rows.long()]

    def gather(self, indices: Sequence[int] | Tensor | slice) -> tuple[Tensor, ...]:
        """Return a batch: the rows at `indices`, (rows, ...), of every tensor; views of them for a slice of all."""
        rows: Tensor | slice
        if isinstance(indices, slice):
            rows = indices if self.rows is None else self.rows[indices].long()
        else:
            rows = torch.as_tensor(indices, dtype=torch.int64)
            rows = rows if self.rows is None else self.rows[rows].long()
        return self._taken(rows)

    def _taken(self, rows: Tensor | slice) -> tuple[Tensor, ...]:
        if self.prepare is None:
            return self._own(self.base, rows)
        return (self.prepare(rows), *self._own(self.base[1:], rows))

    def _own(self, tensors: Sequence[Tensor], rows: Tensor | slice | int) -> tuple[Tensor, ...]:
        """Return rows of tensors; no views of a file, for whoever gets them may change them."""
        if self.rows is not None and isinstance(rows, Tensor) and rows.dim() == 1:  # copies whole rows, twice as fast
            return tuple(tensor.index_select(0, rows) for tensor in tensors)
        if self.is_mapped and not isinstance(rows, Tensor):
            return tuple(tensor[rows].clone() for tensor in tensors)
        return tuple(tensor[rows] for tensor in tensors)

    def prepared_by(self, call: Callable[[Tensor], Tensor]) -> TensorSamples:
        """Return all rows, with the first tensor's, (rows, ...), prepared by a call on their way out."""
        prepare = Prepare(call, self.base[0])
        return TensorSamples(*self.base, rows=self.rows, prepare=prepare, is_mapped=self.is_mapped)

    def erase(self) -> None:
        """Overwrite the samples' rows, which other parts of the same memory then lack too. Not of mapped ones."""
        for tensor in self.base:
            tensor[slice(None) if self.rows is None else self.rows.long()] = 0
        if self.prepare is not None:
            self.prepare.forget()

    def move_to(self, base: Sequence[Tensor]) -> None:
        """Read the samples' rows from other tensors, (rows, ...), from now on."""
        self.base = tuple(base)
        if self.prepare is not None:
            self.prepare.raw = self.base[0]
            self.prepare.forget()

    def subset(self, indices: Sequence[int] | Tensor) -> TensorSamples:
        """Return the samples at `indices`, (chosen,), in the same memory."""
        chosen = torch.as_tensor(indices)
        rows = chosen if self.rows is None else self.rows[chosen.long()]
        return TensorSamples(*self.base, rows=rows, prepare=self.prepare, is_mapped=self.is_mapped)


def in_memory(data: object) -> object:
    """Return a plain `TensorDataset` as `TensorSamples`, and anything else, or one with an attribute, as it is."""
    if type(data) is TensorDataset and not hasattr(data, "raw_inputs"):  # which says what each sample was
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


def counts_none(target: Any) -> bool:
    """Return whether a target (any shape) is of class numbers of which none counts."""
    is_numbers = isinstance(target, Tensor) and not target.is_floating_point() and target.numel() > 0
    return is_numbers and bool((target.long() == IGNORED).all())


def joined(batches: list[Tensor], filling: float) -> Tensor:
    """Return batches (samples, ...) as one; of those of several lengths, the shorter ones are filled up."""
    if len({batch.shape[1:] for batch in batches}) == 1 or len({batch.dim() for batch in batches}) > 1:
        return torch.cat(batches)
    most = [max(sizes) for sizes in zip(*(batch.shape[1:] for batch in batches), strict=True)]
    whole = batches[0].new_full((sum(map(len, batches)), *most), filling)
    start = 0
    for batch in batches:
        whole[(slice(start, start + len(batch)), *map(slice, batch.shape[1:]))] = batch
        start += len(batch)
    return whole
