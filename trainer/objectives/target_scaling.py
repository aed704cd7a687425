"""Targets brought to mean 0 and deviation 1 for the loss, and predictions back to the targets' own units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.objectives.supervised import split_batch

MOST_SAMPLES = 20_000
"""Read of a train split that does not lie in memory, evenly spaced."""


@dataclass(frozen=True)
class TargetScaling:
    """Measured on the train split alone. The model's own output is in deviations from the mean."""

    mean: Tensor
    """(...) as one target, float32."""
    scale: Tensor

    def scaled(self, target: Tensor) -> Tensor:
        """Return targets (batch, ...) in deviations from the mean."""
        return (target.float() - self.mean.to(target.device)) / self.scale.to(target.device)

    def in_units(self, output: Tensor) -> Tensor:
        """Return the model's outputs, (batch, ...) or (batch, 1), in the targets' units."""
        return output.float() * self.scale.to(output.device) + self.mean.to(output.device)

    def as_dict(self) -> dict[str, Any]:
        """Return what goes into the evidence and beside the exported model."""
        return {"mean": self.mean.tolist(), "scale": self.scale.tolist()}


def measure_targets(samples: Any, seed: int) -> TargetScaling:
    """Return mean and deviation of the train split's targets; the deviation is 1 where nothing varies.

    Raises:
        DataError: a stream, or targets that are no numbers to predict.
    """
    targets = _targets(samples, seed)
    if targets is None or not (targets.is_floating_point() or targets.dtype in {torch.int32, torch.int64}):
        raise DataError(
            "`target_scaling` needs numbers to predict, which this train split does not give with its samples.",
            remedy="Take target_scaling out (null), or hand over samples (inputs, target) in a data set with "
            "__getitem__.",
            document="configs/losses.md",
            details={"changes": {"target_scaling": None}},
        )
    numbers = targets.double()
    mean, scale = numbers.mean(dim=0), numbers.std(dim=0, unbiased=False)
    return TargetScaling(mean.float(), torch.where(scale > 0, scale, torch.ones_like(scale)).float())


def _targets(samples: Any, seed: int) -> Tensor | None:
    if isinstance(samples, TensorSamples):
        return samples.column(-1) if len(samples.base) > 1 else None
    if isinstance(samples, IterableDataset):
        return None
    places = np.unique(np.linspace(0, len(samples) - 1, min(len(samples), MOST_SAMPLES)).round().astype(int))
    found = []
    with seeding.preserved():
        for place in places.tolist():
            seeding.seed_sample(seed, 0, place)
            found.append(split_batch(samples[place])[2])
    if any(target is None for target in found):
        return None
    return torch.stack([torch.as_tensor(target) for target in found])
