"""A user's own module, and configurations that train what it gives."""

from __future__ import annotations

from typing import Any

MINE = """
import torch
from torch import nn
def data(rows=40):
    x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(0))
    return torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))
    def forward(self, x):
        return self.layers(x)
"""
SHORT: dict[str, Any] = {
    "loader": {"batch_size": 8},
    "training": {"epochs": 2},
    "logging": {"tensorboard": False},
}
PARTS: dict[str, Any] = {"model": {"use": "mine:Net"}, "data": {"use": "mine:data"}, **SHORT}
TASK: dict[str, Any] = {"task": {"use": "mine:build"}, **SHORT}
"""Of a module that has a `build` besides."""
