"""Schedule-Free optimizers train at one point and are judged at another: switching between the two, exactly.

The package's own `train()` after `eval()` brings the training point back only up to rounding; a run that saved a
checkpoint would then go on with other bits than one that did not. So the training point is kept and put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


@contextmanager
def averaged_weights(optimizers: Iterable[Optimizer]) -> Iterator[None]:
    """Hold the averaged weights in the model inside the context, where an optimizer averages."""
    averaging = [optimizer for optimizer in optimizers if averages(optimizer)]
    groups = [group for optimizer in averaging for group in optimizer.param_groups]
    kept = [(group, training_point(group), group["train_mode"]) for group in groups]
    settle(averaging)
    try:
        yield
    finally:
        for group, point, mode in kept:
            _put_back(group, point)
            group["train_mode"] = mode


def settle(optimizers: Iterable[Optimizer]) -> None:
    """Leave the averaged weights in the model for good: training is over."""
    for optimizer in optimizers:
        if averages(optimizer):
            optimizer.eval()  # type: ignore[attr-defined]


def training_points(optimizers: dict[str, Optimizer]) -> dict[str, list[list[Tensor]]]:
    """Return the training weights of the optimizers that average, by group, for a checkpoint."""
    return {
        name: [training_point(group) for group in optimizer.param_groups]
        for name, optimizer in optimizers.items()
        if averages(optimizer)
    }


def restore_training_points(optimizers: dict[str, Optimizer], saved: dict[str, list[list[Tensor]]]) -> None:
    """Put the training weights of a checkpoint into the model, whose own file holds the averaged ones.

    The optimizers have their own saved state by then, the mode included.
    """
    for name, points in saved.items():
        for group, point in zip(optimizers[name].param_groups, points, strict=True):
            _put_back(group, point)


def averages(optimizer: Optimizer) -> bool:
    """Tell whether the optimizer is a Schedule-Free one."""
    return any("train_mode" in group for group in optimizer.param_groups)


def training_point(group: dict[str, Any]) -> list[Tensor]:
    """Return copies of a group's parameters as they are trained."""
    return [parameter.detach().clone() for parameter in group["params"]]


def _put_back(group: dict[str, Any], point: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(group["params"], point, strict=True):
            parameter.copy_(value)
