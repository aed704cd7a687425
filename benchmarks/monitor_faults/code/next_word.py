"""Loss of the suite's language model: each word from those before it."""

from __future__ import annotations

from torch import Tensor, nn


def loss(output: Tensor, target: Tensor) -> Tensor:
    """Return the mean over all words."""
    return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())
