"""Labels and their order: batches whose labels went astray on the way, blocks of one class, and orders that repeat."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.data.tensors import InMemory, known_targets
from trainwright.trainer.watch.inspector import Finding
from trainwright.trainer.watch.silent.record import StepRecord
from trainwright.trainer.watch.silent.tensors import tensors_in

TARGETS = ("targets", "labels", "y")
"""Attributes under which data sets keep their targets."""
MIN_ROWS = 8
IMPROBABLE = -25.0
"""Natural logarithm of a probability under which the first batches are no chance."""
MAX_CLASSES = 1000


def targets_of(samples: Any) -> Tensor | None:
    """Return the targets of all samples, (samples, ...), where they can be read without fetching one; else None."""
    if isinstance(samples, InMemory):
        return known_targets(samples)
    if isinstance(samples, list | tuple) and samples and len(samples) <= 1_000_000:
        return _last_items(samples)
    for name in TARGETS:
        value = getattr(samples, name, None)
        if isinstance(value, Tensor | np.ndarray | list) and len(value) == len(samples):
            return _as_tensor(value)
    return None


def _last_items(samples: Sequence[Any]) -> Tensor | None:
    if not all(isinstance(item, tuple | list) and len(item) > 1 for item in samples):
        return None
    return _as_tensor([item[-1] for item in samples])


def _as_tensor(value: Any) -> Tensor | None:
    try:
        if isinstance(value, list) and value and isinstance(value[0], Tensor):
            return torch.stack([each.detach().cpu() for each in value])
        found = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        return None
    return found if found.numel() else None


def shuffled_targets(record: StepRecord, targets: Tensor | None) -> Finding | None:
    """Find targets in another order than the samples have them: in the batch, or in the loss.

    Targets have any shape whose first size is the batch.

    Mixing two samples uses targets in their order too, so nothing is said where any loss has them so.
    """
    calls = [call.target for call in record.functions.losses if call.learns]
    if not record.batches or len(record.batches) != 1:
        return None
    in_batch = [value for _, value in tensors_in(record.batches[0])]
    if targets is not None and len(record.indices) >= MIN_ROWS:
        expected = targets[record.indices]
        found = [value for value in in_batch if value.shape == expected.shape]
        if (
            found
            and not any(_same(value, expected) for value in found)
            and (moved := next((rows for value in found if (rows := _moved(value, expected))), None))
        ):
            return _astray(record, moved, "the batch has the targets of its samples in another order")
    for target in calls:
        alike = [value for value in in_batch if value.numel() == target.numel() and len(value) >= MIN_ROWS]
        if any(_same(value, other) for value in alike for other in calls if other.numel() == value.numel()):
            return None
        if moved := next((rows for value in alike if (rows := _moved(target, value))), None):
            return _astray(record, moved, "the loss was given the batch's targets in another order")
    return None


def _astray(record: StepRecord, places: list[int], words: str) -> Finding:
    rows = tuple(record.indices[place] for place in places if place < len(record.indices))[:20]
    share = len(places) / max(record.rows, 1)
    return Finding("shuffled_labels", share, rows=rows, detail=f"{words}: {len(places)} of {record.rows} differ")


def _same(value: Tensor, other: Tensor) -> bool:
    first, second = value.detach().reshape(-1).cpu().double(), other.detach().reshape(-1).cpu().double()
    return first.shape == second.shape and bool(torch.equal(first, second))


def _moved(value: Tensor, other: Tensor) -> list[int]:
    """Return the places where two flat tensors with the same values differ; none where the values differ too."""
    first, second = value.detach().reshape(-1).cpu().double(), other.detach().reshape(-1).cpu().double()
    if first.shape != second.shape or not torch.equal(first.sort().values, second.sort().values):
        return []
    apart = (first != second).nonzero().flatten().tolist()
    return [int(place) for place in apart] if len(torch.unique(first)) > 1 else []


def labels_in_blocks(targets: Tensor, order: Sequence[Sequence[int]], among: Tensor | None = None) -> Finding | None:
    """Find first batches that have far more of one class than chance gives them.

    Args:
        targets: class numbers of all samples, (samples,).
        order: rows of the first batches.
        among: rows that the epoch draws from, where these are not all: a curriculum's easy ones may be of few classes.
    """
    if targets.is_floating_point() or targets.dim() != 1 or not order or min(map(len, order)) < MIN_ROWS:
        return None
    drawn = targets if among is None else targets[among]
    classes, counts = torch.unique(drawn, return_counts=True)
    if not 2 <= len(classes) <= MAX_CLASSES:
        return None
    shares = dict(zip(classes.tolist(), (counts.double() / len(drawn)).tolist(), strict=True))
    if sum(_log_chance(targets[list(rows)], shares) for rows in order) > IMPROBABLE:
        return None
    rows = order[0]
    label = targets[list(rows)].mode().values.item()
    count = int((targets[list(rows)] == label).sum())
    detail = (
        f"{count} of the {len(rows)} samples of the first batch have the label {label}, which {shares[label]:.0%} of "
        f"all have: labels come in blocks"
    )
    return Finding("labels_in_blocks", count / len(rows), rows=tuple(rows[:20]), detail=detail)


def _log_chance(labels: Tensor, shares: dict[Any, float]) -> float:
    """Bound the logarithm of the chance that any class is as frequent as the most frequent one is (Chernoff)."""
    values, counts = torch.unique(labels, return_counts=True)
    place = int(counts.argmax())
    found, share = float(counts[place]) / len(labels), shares[values[place].item()]
    if found <= share:
        return 0.0
    distance = found * math.log(found / share)
    if found < 1:
        distance += (1 - found) * math.log((1 - found) / (1 - share))
    return math.log(len(shares)) - len(labels) * distance


def first_rows(batches: Sequence[Any]) -> list[bytes]:
    """Return digests of the tensors of a step's batches, by which epochs are compared."""
    found = []
    for _, value in (pair for batch in batches for pair in tensors_in(batch)):
        data = value.detach().cpu().contiguous()
        plain = data.view(torch.uint8) if data.dim() and data.element_size() and not data.is_complex() else data.abs()
        found.append(hashlib.sha256(plain.numpy().tobytes()).digest())
    return found


def repeated_order(first: Sequence[bytes], again: Sequence[bytes]) -> Finding | None:
    """Find that the first batch of two epochs is the same, bit for bit."""
    if not first or list(first) != list(again):
        return None
    return Finding("constant_order", 1.0, detail="the first batch is the same in two epochs, bit for bit")
