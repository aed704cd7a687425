"""Losses of numbers: regression, and yes or no for each label."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

from trainwright.trainer.losses.loss import Compute, Weights


def mse(output: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared difference."""
    return F.mse_loss(output.reshape(target.shape), target.to(output.dtype))


def mae(output: Tensor, target: Tensor) -> Tensor:
    """Return the mean absolute difference."""
    return F.l1_loss(output.reshape(target.shape), target.to(output.dtype))


def huber(delta: float) -> Compute:
    """Return the Huber loss: squared below `delta`, linear above it (Huber 1964)."""
    return lambda output, target: F.huber_loss(output.reshape(target.shape), target.to(output.dtype), delta=delta)


def bce_with_logits(pos_weight: Tensor | None = None) -> Compute:
    """Return binary cross entropy of logits, the positive term of each label times its `pos_weight`."""
    held = None if pos_weight is None else Weights(pos_weight)

    def compute(output: Tensor, target: Tensor) -> Tensor:
        weight = None if held is None else held.at(output.device)
        return F.binary_cross_entropy_with_logits(
            output.reshape(target.shape), target.to(output.dtype), pos_weight=weight
        )

    return compute


def negatives_per_positive(counts: Tensor) -> Tensor:
    """Return the pos_weight under which both sides of each label weigh the same; `counts` (2, labels)."""
    return (counts[0].clamp(min=1).double() / counts[1].clamp(min=1).double()).float()
