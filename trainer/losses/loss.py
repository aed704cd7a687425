"""A loss and what the engine knows of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.data.tensors import IGNORED

Compute = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Loss:
    """A loss with its name: `compute(output, target)` is a mean over the batch, a scalar tensor."""

    name: str
    compute: Compute
    user_defined: bool = False
    task: str | None = None
    """classification, language_model, binary, regression; None where only the user knows."""
    by_sample: bool = False
    """Whether the mean is over samples whatever is ignored in them; else over the class numbers that count."""
    soft_targets: bool = False
    """Whether targets may be a share for each class in place of class numbers."""
    weights: Tensor | None = None
    """One per class (or label), where the loss has any: their number must fit the model's outputs."""
    measure: Callable[[Tensor], Loss] | None = None
    """Makes the loss itself from the number of train targets by class (for binary: negatives and positives by label).

    Until it has been called `compute` has equal weights.
    """

    def count(self, target: Any) -> int:
        """Return how many terms the mean of this batch is over, for weighting micro-batches."""
        numbers = self.task in {"classification", "language_model"} and not self.by_sample
        if numbers and isinstance(target, Tensor) and not target.is_floating_point():
            if target.is_cpu and target.numel() and target.min().item() > IGNORED:  # half the time of counting
                return target.numel()
            return int((target != IGNORED).sum())
        return len(target)


class Weights:
    """Constant weights, moved once to where they are needed."""

    def __init__(self, values: Tensor) -> None:
        self.values = values.float()

    def at(self, device: torch.device) -> Tensor:
        """Return them on the device."""
        if self.values.device != device:
            self.values = self.values.to(device)
        return self.values
