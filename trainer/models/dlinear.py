"""DLinear: two linear layers on a window's trend and on what is left (Zeng et al. 2023, arXiv:2205.13504)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class DLinear(nn.Module):
    """A moving average of the window, and the rest of it, each by a linear layer of its own; their sum.

    Every output sees every column of the window, where the paper forecasts each column from itself alone.
    Input (batch, time, columns); output (batch, outputs).
    """

    def __init__(self, input_shape: Sequence[int], outputs: int, *, moving_average: int = 25) -> None:
        super().__init__()
        self.reach = moving_average // 2
        width = input_shape[0] * input_shape[1]
        self.trend = nn.Linear(width, outputs)
        self.rest = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, columns) to (batch, outputs)."""
        x = x.float()
        ends = [x[:, place : place + 1 or None].expand(-1, self.reach, -1) for place in (0, -1)]
        padded = torch.cat([ends[0], x, ends[1]], dim=1).transpose(1, 2)
        trend = functional.avg_pool1d(padded, 2 * self.reach + 1, stride=1).transpose(1, 2)
        result: Tensor = self.trend(trend.flatten(1)) + self.rest((x - trend).flatten(1))
        return result
