"""Overlap losses for output (batch, classes, ...) and class numbers (batch, ...), usually pixels."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

from trainwright.trainer.data.tensors import IGNORED
from trainwright.trainer.losses.loss import Compute


def dice(smooth: float) -> Compute:
    """Return 1 - the soft Dice coefficient, a mean over samples and classes (Milletari et al. 2016, arXiv:1606.04797).

    2 |P T| / (|P| + |T|), with `smooth` added above and below; pixels that are ignored count on neither side.
    """

    def compute(output: Tensor, target: Tensor) -> Tensor:
        counted = (target != IGNORED).unsqueeze(1)
        probabilities = F.softmax(output.float(), dim=1) * counted
        wanted = F.one_hot(torch.where(counted[:, 0], target, 0), output.shape[1]).movedim(-1, 1) * counted
        overlap, sizes = (probabilities * wanted).flatten(2).sum(2), (probabilities + wanted).flatten(2).sum(2)
        return 1.0 - ((2.0 * overlap + smooth) / (sizes + smooth)).mean()

    return compute


def dice_cross_entropy(smooth: float, dice_share: float) -> Compute:
    """Return dice_share of the Dice loss and the rest of cross entropy, a mean over samples of their pixels' mean."""
    overlap = dice(smooth)

    def compute(output: Tensor, target: Tensor) -> Tensor:
        terms = F.cross_entropy(output.float(), target, ignore_index=IGNORED, reduction="none").flatten(1).sum(1)
        pixels = (target != IGNORED).flatten(1).sum(1).clamp(min=1)
        return dice_share * overlap(output, target) + (1.0 - dice_share) * (terms / pixels).mean()

    return compute
