"""A tiny configuration for sessions in the test's own process."""

from __future__ import annotations

from typing import Any

import pytest

IRIS: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [16, 12], "norm": "layer"}},
    "data": {"use": "iris"},
    "loader": {"batch_size": 8},
    "training": {"epochs": 4},
    "logging": {"tensorboard": False},
}


@pytest.fixture(scope="session")
def iris() -> dict[str, Any]:
    """A tiny configuration: 14 steps an epoch."""
    return IRIS
