"""Packed blocks: several documents in one block, apart from each other by positions that begin anew.

A model of the Transformers library keeps such documents apart in its attention where it is given positions and no mask
(models/packing.py tests that it does). Best fit, longest first (Johnson 1974; Krell et al. 2021, arXiv:2107.02027).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.data.tensors import IGNORED, InMemory
from trainwright.trainer.data.text.blocks import TokenBlocks


class PackedBlocks(InMemory):
    """Sample i is a mapping of input_ids, position_ids and labels, each (block_size,) of int64.

    Positions count from 0 in each document. Filling behind the last one counts as a document without labels.
    """

    def __init__(self, parts: TokenBlocks) -> None:
        self.parts = parts
        self.groups = packed(parts.lengths.tolist(), parts.block_size)
        self.bytes_per_token = parts.bytes_per_token

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: value[0] for name, value in self.gather([range(len(self))[index]]).items()}

    def gather(self, indices: Sequence[int] | Tensor) -> dict[str, Tensor]:
        """Return a batch by name, each (samples, block_size) of int64."""
        samples = [self._one(int(index)) for index in indices]
        return {name: torch.stack([sample[name] for sample in samples]) for name in samples[0]}

    def _one(self, index: int) -> dict[str, Tensor]:
        parts, size = self.parts, self.parts.block_size
        tokens, labels = torch.full((size,), parts.padding), torch.full((size,), IGNORED)
        positions, place = torch.arange(size), 0
        for part in self.groups[index]:
            length = int(parts.lengths[part])
            inputs, targets = (value[0, :length] for value in parts.gather([part]))
            here = slice(place, place + length)
            tokens[here], labels[here], positions[here] = inputs, targets, torch.arange(length)
            place += length
        positions[place:] = torch.arange(size - place)
        return {"input_ids": tokens, "position_ids": positions, "labels": labels}

    @property
    def filled(self) -> float:
        """Share of the places that hold a document's tokens."""
        return float(self.parts.lengths.sum()) / max(len(self) * self.parts.block_size, 1)


def packed(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Return which parts share a block of `room` tokens; none is divided, and each is in one."""
    groups: list[list[int]] = []
    free: list[tuple[int, int]] = []
    for part in np.argsort(-np.asarray(lengths), kind="stable").tolist():
        place = bisect_left(free, (lengths[part], -1))
        left, group = free.pop(place) if place < len(free) else (room, len(groups))
        if group == len(groups):
            groups.append([])
        groups[group].append(part)
        insort(free, (left - lengths[part], group))
    return groups
