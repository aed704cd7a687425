"""Batch normalisation over the rows of all processes (Peng et al. 2018, arXiv:1711.07240), on any device.

torch's SyncBatchNorm works on GPUs only, and counts rows that a process has only to keep the others company.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def synchronize(model: nn.Module, is_spare: Callable[[], bool]) -> None:
    """Let every batch normalisation of the model use the rows of all processes while it trains; names and state stay.

    Args:
        model: the trained module.
        is_spare: returns whether this process has no rows in the present micro-batch.
    """
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.forward = MethodType(_forward(type(module), is_spare), module)  # type: ignore[method-assign]


def _forward(kind: type[_BatchNorm], is_spare: Callable[[], bool]) -> Any:
    def forward(module: _BatchNorm, rows_NC: Tensor) -> Tensor:  # noqa: N803 - rows, channels, and any places after
        if not module.training:
            return kind.forward(module, rows_NC)
        return normalised(module, rows_NC, counts=not is_spare())

    return forward


def normalised(module: _BatchNorm, rows_NC: Tensor, *, counts: bool) -> Tensor:  # noqa: N803
    """Normalise by mean and variance over all processes, and move the running statistics.

    Args:
        rows_NC: (rows, channels, ...) of this process.
        counts: whether they belong to the batch.
    """
    module._check_input_dim(rows_NC)  # type: ignore[no-untyped-call]
    x = rows_NC.float()
    over = [dim for dim in range(x.dim()) if dim != 1]
    share = 1.0 if counts else 0.0
    number = _sum(x.new_tensor(share * x.numel() / x.shape[1]))
    mean = _sum(x.sum(over) * share) / number
    shape = [-1 if dim == 1 else 1 for dim in range(x.dim())]
    centred = x - mean.view(shape)
    variance = _sum(centred.square().sum(over) * share) / number
    y = centred * torch.rsqrt(variance + module.eps).view(shape)
    if module.affine:
        y = y * module.weight.view(shape) + module.bias.view(shape)
    _move(module, mean.detach(), (variance * number / (number - 1).clamp(min=1)).detach())
    normal: Tensor = y.to(rows_NC.dtype)
    return normal


def _move(module: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    if module.running_mean is None or module.running_var is None or module.num_batches_tracked is None:
        return
    module.num_batches_tracked.add_(1)
    share = 1.0 / float(module.num_batches_tracked) if module.momentum is None else module.momentum
    module.running_mean.lerp_(mean.to(module.running_mean.dtype), share)
    module.running_var.lerp_(variance.to(module.running_var.dtype), share)


def _sum(value: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(value)  # type: ignore[no-untyped-call]
    return total


class _Sum(torch.autograd.Function):
    """The sum over all processes; its gradient is the sum of theirs."""

    @staticmethod
    def forward(_context: Any, value: Tensor) -> Tensor:
        total = value.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(_context: Any, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        dist.all_reduce(total)
        return total
