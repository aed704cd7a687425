"""The work that every contender does: the same model, data, order, optimizer and number of steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

CLIP_NORM = 1.0
LEARNING_RATE = 1e-3
LOG_EVERY = 10
"""Steps between two looks at the recorded values, for everyone who records."""


@dataclass(frozen=True)
class Workload:
    """Digits (handwritten, 8 x 8), repeated until one epoch has `steps` steps."""

    name: str
    hidden: tuple[int, ...]
    batch_size: int
    steps: int
    """Of one training, the warmup included."""
    warmup_steps: int
    """Left out of the figures."""
    tensors: list[Tensor] = field(default_factory=list)

    def load(self) -> Workload:
        """Read the data set into memory."""
        from sklearn.datasets import load_digits

        data = load_digits()
        rows = np.resize(np.arange(len(data.target)), self.batch_size * self.steps)
        self.tensors[:] = [
            torch.from_numpy((data.data[rows] / 16.0).astype(np.float32)),
            torch.from_numpy(data.target[rows].astype(np.int64)),
        ]
        return self

    def save(self, folder: Path) -> Path:
        """Write the data as the engine's npz source; the tail is split off for validation by the engine."""
        path = folder / f"{self.name}.npz"
        inputs, targets = (tensor.numpy() for tensor in self.tensors)
        np.savez(path, x=inputs, y=targets)
        return path

    def model(self) -> nn.Module:
        """Return the engine's own MLP, seeded."""
        from trainwright.trainer.models.small import MLP

        torch.manual_seed(0)
        return MLP((64,), 10, hidden=list(self.hidden))

    def batches(self, number: int) -> list[Tensor]:
        """Return the row numbers of each batch of training `number`."""
        order = torch.from_numpy(np.random.default_rng(number).permutation(len(self.tensors[0])))
        return list(order.split(self.batch_size))[: self.steps]
