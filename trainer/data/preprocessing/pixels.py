"""Pixels: 8-bit images brought to [0, 1], and their channels to mean 0 and deviation 1 on the train split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from trainwright.trainer.data.preprocessing.preprocessing import Unfitted
from trainwright.trainer.data.preprocessing.standardize import Standardize
from trainwright.trainer.data.rows import measure
from trainwright.trainer.data.tensors import TensorSamples

WHITE = 255.0


class Pixels(Standardize):
    """Pixels divided by 255, less a mean and divided by a deviation where these were measured.

    Args:
        mean: of the values in [0, 1], (channels, 1, 1); None: they stay in [0, 1].
        scale: their deviation, of the same shape.
    """

    kind: ClassVar[str] = "pixels"

    def __init__(self, mean: Any = None, scale: Any = None) -> None:
        super().__init__(0.0 if mean is None else mean, 1.0 if scale is None else scale)
        self.measured = {"mean": mean, "scale": scale}

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (images, channels, height, width) of uint8 to float32 of the same shape."""
        return super().forward(inputs.float() / WHITE)


@dataclass(frozen=True)
class ToPixels(Unfitted):
    """Bring pixels to [0, 1], and standardise each channel where asked."""

    standardize: bool = True

    def fit(self, train: TensorSamples) -> Pixels:
        """Measure the train split's images, (images, channels, height, width) of uint8."""
        if not self.standardize:
            return Pixels()
        found = measure(train, by_channel=True)
        mean, scale = (torch.tensor(found[name], dtype=torch.float64) / WHITE for name in ("mean", "scale"))
        flat = torch.tensor(found["scale"]) == 1.0  # nothing varies: stays 1
        return Pixels(mean.tolist(), torch.where(flat, torch.ones_like(scale), scale).tolist())
