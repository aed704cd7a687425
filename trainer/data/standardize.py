"""Features brought to mean 0 and deviation 1, as measured on the train split, in the memory they lie in."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.data.rows import pieces
from trainwright.trainer.data.tensors import TensorSamples

MEASURED_AT_ONCE = 1 << 22
"""Numbers up to which all are measured in one go."""


def measure(train: TensorSamples, *, by_channel: bool) -> dict[str, Any]:
    """Return mean and deviation (1 where nothing varies) of the first tensor's features, or of its channels."""
    over = (0, *range(2, train.base[0].dim())) if by_channel else (0,)
    if len(train) * train.base[0][:1].numel() <= MEASURED_AT_ONCE:
        numbers = train.column(0).double()
        mean, scale = numbers.mean(dim=over, keepdim=True)[0], numbers.std(dim=over, unbiased=False, keepdim=True)[0]
    else:
        mean, scale = _by_pieces(train, over)
    return {"mean": mean.tolist(), "scale": torch.where(scale > 0, scale, torch.ones_like(scale)).tolist()}


def _by_pieces(train: TensorSamples, over: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return mean and deviation without a wider copy of all rows: sums of what differs from a first guess."""
    inputs = TensorSamples(train.base[0], rows=train.rows)
    guess = total = squares = torch.zeros(())
    for start, (piece,) in pieces(inputs):
        numbers = piece.double()
        if start == 0:
            guess = numbers.mean(dim=over, keepdim=True)
            total, squares = torch.zeros_like(guess), torch.zeros_like(guess)
        numbers -= guess
        total += numbers.sum(dim=over, keepdim=True)
        squares += numbers.square_().sum(dim=over, keepdim=True)
    count = len(train) * train.base[0][:1].numel() / total.numel()
    mean = total / count
    return (guess + mean)[0], (squares / count - mean.square()).clamp(min=0).sqrt()[0]


def standardize(samples: TensorSamples, preprocessing: dict[str, Any]) -> None:
    """Standardise the first tensor of all samples, in place; whole numbers become float32."""
    mean, scale = (torch.tensor(preprocessing[name], dtype=torch.float32) for name in ("mean", "scale"))
    inputs, *others = samples.base
    if not inputs.is_floating_point():
        samples.base = (inputs.float(), *others)
    for _, (piece,) in pieces(TensorSamples(samples.base[0])):
        piece.sub_(mean).div_(scale)
