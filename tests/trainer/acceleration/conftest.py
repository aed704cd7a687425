"""Sessions in the test's own process, and what the next step depends on, as bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.trainer.saving import checkpoint_of

from trainwright.trainer.checkpoints.packing import pack
from trainwright.trainer.engine.loop import take_step

DIGITS: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [32, 32, 32], "norm": "batch", "dropout": 0.3}},
    "data": {"use": "digits"},
    "loader": {"batch_size": 64},
    "training": {"epochs": 2},
    "logging": {"tensorboard": False},
}


@pytest.fixture(scope="session")
def digits_values() -> dict[str, Any]:
    """MLP with batch norm and dropout on digits: 20 steps an epoch, the last batch a smaller one."""
    return DIGITS


@pytest.fixture(scope="session")
def trained() -> Callable[[Any, int], list[Any]]:
    """`trained(session, steps)` trains on within the epoch; returns the steps' results."""

    def train(session: Any, steps: int) -> list[Any]:
        session.model.train()
        torch.manual_seed(session.progress.step)
        return [take_step(session, group) for _, group in zip(range(steps), session.groups(), strict=False)]

    return train


@pytest.fixture(scope="session")
def bits() -> Callable[[Any], Any]:
    """`bits(session)` returns model, optimizer and scaler as plain values and bytes."""

    def of(session: Any) -> Any:
        tensors: dict[str, torch.Tensor] = {}
        whole = {
            "model": {name: value.contiguous() for name, value in session.model.state_dict().items()},
            "optimizers": {name: optimizer.state_dict() for name, optimizer in session.optimizers.items()},
            "scaler": session.scaler.state_dict(),
        }
        plain = pack(whole, "all", tensors)
        return plain, {name: tensor.contiguous().numpy().tobytes() for name, tensor in tensors.items()}

    return of


@pytest.fixture(scope="session")
def taken_up() -> Callable[[Any, Any], Any]:
    """`taken_up(session, again)` writes a session's checkpoint and loads it into another one."""

    def take_up(session: Any, again: Any) -> Any:
        again.load(checkpoint_of(session))
        return again

    return take_up
