"""A user's module with digits, and sessions that are trained as the loop does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DIGITS = """
import numpy
import torch
from sklearn.datasets import load_digits
from torch.utils.data import TensorDataset

def digits(rows=900, start=0, labels=True):
    '''Scans of digits in a fixed mixed order: `rows` to train on out of the first 900, the other 897 to validate.'''
    found = load_digits()
    order = numpy.random.default_rng(0).permutation(len(found.target))
    x = torch.from_numpy(found.images[order].astype("float32") / 16.0).unsqueeze(1)
    y = torch.from_numpy(found.target[order])
    return {
        "train": TensorDataset(x[start:start + rows], y[start:start + rows]),
        "validation": TensorDataset(x[900:], y[900:]),
    }

class Net(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))
    def forward(self, x):
        return self.layers(x)
"""
"""A user's own module, with which a test says exactly what is trained on."""


@pytest.fixture(autouse=True)
def root(tmp_path: Path) -> Path:
    """A code root that holds `own.py`."""
    (tmp_path / "own.py").write_text(DIGITS)
    return tmp_path


@pytest.fixture(scope="session")
def trained(take_steps: Any) -> Callable[[Any], Any]:
    """`trained(session)` trains all epochs, without validating, and returns the session."""

    def train(session: Any) -> Any:
        for epoch in range(session.config.training.epochs):
            take_steps(session, len(session.train_loader))
            session.progress.epoch, session.progress.batch = epoch + 1, 0
            session.totals.reset()
        return session

    return train


@pytest.fixture(scope="session")
def judge() -> Callable[[Any], dict[str, float]]:
    """`judge(session)` measures the validation split."""
    from trainwright.trainer.engine.evaluation import evaluate_split

    def judged(session: Any) -> dict[str, float]:
        return evaluate_split(session, session.validation_loader)

    return judged
