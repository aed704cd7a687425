"""Sessions in the test's own process, trained epoch by epoch as the loop does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.trainer import whole_runs

DATA = """
import numpy as np, torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

def digits():
    bunch = load_digits()
    images = torch.from_numpy((bunch.images / 16.0).astype(np.float32))[:, None]
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return images[order], torch.from_numpy(bunch.target)[order]

def long_tail(factor=60.0):
    '''Class c keeps factor ** (-c / 9) of its train images: 100 of the zeros down to 2 of the nines.'''
    images, labels = digits()
    train, rest = slice(0, 1000), slice(1000, None)
    kept = [torch.nonzero(labels[train] == c)[:, 0] for c in range(10)]
    kept = torch.cat([rows[:max(2, round(100 * factor ** (-c / 9)))] for c, rows in enumerate(kept)]).sort().values
    return {"train": TensorDataset(images[kept], labels[kept]),
            "validation": TensorDataset(images[rest], labels[rest])}

def attributes():
    '''Of each digit: even, above four, prime, holds a closed loop; three of the four are rare in no image.'''
    images, labels = digits()
    groups = ((0, 2, 4, 6, 8), (5, 6, 7, 8, 9), (2, 3, 5, 7), (0, 6, 8, 9))
    marks = torch.stack([torch.isin(labels, torch.tensor(g)) for g in groups], dim=1).float()
    return TensorDataset(images, marks)

def strokes():
    '''Which pixels are paper (0), edge (1) and core (2) of a digit's ink, seen through noise.'''
    images, _ = digits()
    masks = (images[:, 0] > 0.2).long() + (images[:, 0] > 0.7).long()
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(1))
    return TensorDataset(images + 0.25 * noise, masks)

class PerPixel(nn.Module):
    def __init__(self, width=16, classes=3):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2), nn.ReLU(), nn.Conv2d(width, width, 5, padding=2), nn.ReLU(),
            nn.Conv2d(width, classes, 3, padding=1))
    def forward(self, x):
        return self.layers(x)
"""


@pytest.fixture
def trained(tmp_path: Path, open_session: Any) -> Callable[..., dict[str, float]]:
    """`trained(values)` trains a session to its last epoch and returns its validation values."""
    (tmp_path / "real.py").write_text(DATA)
    return lambda values: whole_runs.trained(open_session(values))
