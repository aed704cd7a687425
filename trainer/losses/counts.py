"""What some losses measure on the train split before training: how often each class or label occurs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from trainwright.trainer.data.tensors import IGNORED, TensorSamples
from trainwright.trainer.errors import DataError
from trainwright.trainer.losses.loss import Loss


def measured_on_train(loss: Loss, samples: Any, labels: Mapping[int, int], classes: int) -> Loss:
    """Return the loss with its weights measured, or as it is when it measures nothing.

    Args:
        loss: the loss.
        samples: the train split.
        labels: how often each label was recorded in it (empty where samples have no single label).
        classes: how many classes there are at least, over all splits.

    Raises:
        DataError: the train split does not tell the counts.
    """
    if loss.measure is None:
        return loss
    targets = samples.column(-1) if isinstance(samples, TensorSamples) and len(samples.base) > 1 else None
    if loss.task == "binary":
        if targets is None:
            raise _untold(loss, "pos_weight", "the positives of each label")
        positives = (targets.reshape(len(targets), -1) > 0.5).sum(0)
        shape = targets.shape[1:] if targets.dim() > 1 else (1,)
        return loss.measure(torch.stack([len(targets) - positives, positives]).reshape(2, *shape))
    if targets is not None and not targets.is_floating_point():
        return loss.measure(_counts(targets[targets != IGNORED], classes))
    if not labels or isinstance(samples, IterableDataset):
        raise _untold(loss, "weights", "the samples of each class")
    known = sum(labels.values())  # of a large split only some samples were read
    counts = torch.zeros(max(classes, max(labels) + 1), dtype=torch.float64)
    for label, number in labels.items():
        counts[label] = number * len(samples) / known
    return loss.measure(counts)


def _counts(targets: Tensor, classes: int) -> Tensor:
    bad = targets[targets < 0]
    if len(bad):
        raise DataError(f"Label {int(bad[0])} is negative.", remedy="Correct the labels: class numbers start at 0.")
    return torch.bincount(targets.reshape(-1), minlength=classes)


def _untold(loss: Loss, key: str, what: str) -> DataError:
    return DataError(
        f"Loss {loss.name} weighs by {what}, which this train split does not tell without reading all of it.",
        remedy=f"Count them once and give numbers: loss: {{use: {'cross_entropy' if key == 'weights' else loss.name}, "
        f"args: {{{key}: [1.0, 5.0]}}}}.",
    )
