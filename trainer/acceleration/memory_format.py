"""Channels-last: images (batch, channels, height, width) kept in memory with the channels innermost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


def use_channels_last(model: nn.Module) -> bool:
    """Lay out the model's weights and whatever it is called with; return whether any weight has four dimensions."""
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model.register_forward_pre_hook(_lay_out, with_kwargs=True)
    return any(parameter.dim() == 4 for parameter in model.parameters())


def match_layout(optimizers: Iterable[Optimizer]) -> None:
    """Lay out what a checkpoint gave an optimizer like the parameters: a fresh optimizer's state has their layout."""
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            for name, value in state.items():
                if isinstance(value, Tensor) and value.dim() == 4 and value.shape == parameter.shape:
                    state[name] = value.contiguous(memory_format=torch.channels_last)


def _lay_out(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:  # noqa: ARG001
    return tuple(map(_image, args)), {name: _image(value) for name, value in kwargs.items()}


def _image(value: Any) -> Any:
    is_image = isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point()
    return value.contiguous(memory_format=torch.channels_last) if is_image else value
