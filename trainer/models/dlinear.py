"""DLinear: two linear layers on a window's trend and on what is left (Zeng et al. 2023, arXiv:2205.13504).

From the last value on it is the same paper's NLinear: what is forecast is added to the targets' last row, so that it
begins as the naive forecast, and a level that drifts is no shift to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class DLinear(nn.Module):
    """A moving average of the window, and the rest of it, each by a linear layer of its own; their sum.

    Every output sees every column of the window, where the paper forecasts each column from itself alone.
    Input (batch, time, columns); output (batch, outputs).

    Args:
        input_shape: (time, columns).
        outputs: horizon x targets, row by row.
        places: columns of the targets, in their order.
        moving_average: rows over which the trend is averaged.
        from_last: whether a forecast goes on from the targets' last row, rather than from zero.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        outputs: int,
        places: Sequence[int] = (),
        *,
        moving_average: int = 25,
        from_last: bool = False,
    ) -> None:
        super().__init__()
        self.reach = moving_average // 2
        width = input_shape[0] * input_shape[1]
        self.trend = nn.Linear(width, outputs)
        self.rest = nn.Linear(width, outputs)
        self.last = list(places) if from_last else []
        self.horizon = outputs // max(len(self.last), 1)
        if self.last:
            self.gain = nn.Parameter(torch.ones(len(self.last)))  # inputs and targets are scaled each by themselves
            for layer in (self.trend, self.rest):
                nn.init.zeros_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, columns) to (batch, outputs)."""
        x = x.float()
        begin = x[:, -1]
        if self.last:
            shift = torch.zeros_like(begin)
            shift[:, self.last] = begin[:, self.last]
            x = x - shift[:, None]
        ends = [x[:, place : place + 1 or None].expand(-1, self.reach, -1) for place in (0, -1)]
        padded = torch.cat([ends[0], x, ends[1]], dim=1).transpose(1, 2)
        trend = functional.avg_pool1d(padded, 2 * self.reach + 1, stride=1).transpose(1, 2)
        result: Tensor = self.trend(trend.flatten(1)) + self.rest((x - trend).flatten(1))
        return result + (self.gain * begin[:, self.last]).repeat(1, self.horizon) if self.last else result
