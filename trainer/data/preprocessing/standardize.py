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
