"""Standardisation: features, or the channels of images, at mean 0 and deviation 1 on the train split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from trainwright.trainer.data.preprocessing.preprocessing import Preprocessing, Unfitted
from trainwright.trainer.data.rows import measure
from trainwright.trainer.data.tensors import TensorSamples


class Standardize(Preprocessing):
    """Values less a mean, divided by a deviation.

    Args:
        mean: (features,), or (channels, 1, 1).
        scale: of the same shape, 1 where nothing varies.
    """

    kind: ClassVar[str] = "standardize"
    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Any, scale: Any) -> None:
        super().__init__()
        self.measured = {"mean": mean, "scale": scale}
        for name, value in self.measured.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.float32))

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (rows, ...) to (rows, ...)."""
        return (inputs - self.mean) / self.scale

    def record(self) -> dict[str, Any]:
        """Return mean and scale as they were measured."""
        return {"kind": self.kind, **self.measured}

    @classmethod
    def restored(cls, record: Mapping[str, Any]) -> Self:
        """Return the preprocessing of a record."""
        return cls(record["mean"], record["scale"])


@dataclass(frozen=True)
class ToStandardize(Unfitted):
    """Standardise each feature, or each channel over all its pixels."""

    by_channel: bool = False

    def fit(self, train: TensorSamples) -> Standardize:
        """Measure the train split's raw inputs (rows, ...)."""
        found = measure(train, by_channel=self.by_channel)
        return Standardize(found["mean"], found["scale"])


# Pixels: 8-bit images brought to [0, 1], and their channels to mean 0 and deviation 1 on the train split.

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
