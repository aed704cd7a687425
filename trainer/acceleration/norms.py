"""The norm of all gradients together, and clipping by it, at the least cost that gives torch's own bits."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn


def total_norm(gradients: list[Tensor]) -> Tensor:
    """Return the 2-norm over all entries of gradients, a scalar on their device; 0 of none.

    The value is that of torch.nn.utils.get_total_norm, whose sorting by device and dtype costs more than the norms
    of a small model; it is left to it where there is something to sort.
    """
    if not gradients:
        return torch.zeros(())
    if gradients[0].requires_grad or type(gradients[0]) is not Tensor:
        return torch.nn.utils.get_total_norm(gradients)
    try:
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    except (RuntimeError, NotImplementedError):  # several devices, say
        return torch.nn.utils.get_total_norm(gradients)
    return norm


def clip_to(parameters: list[nn.Parameter], gradients: list[Tensor], largest: float, norm: Tensor) -> None:
    """Scale gradients whose norm is above `largest` down to it, in place, to the bits of clip_grads_with_norm_.

    On the CPU, where looking costs nothing, gradients well below the limit are not multiplied by one.
    """
    if norm.is_cpu and norm.item() < 0.999 * largest:
        return
    if not gradients or type(gradients[0]) is not Tensor:  # shards of them, say
        torch.nn.utils.clip_grads_with_norm_(parameters, largest, norm)
        return
    try:
        with torch.no_grad():
            torch._foreach_mul_(gradients, _coefficient(gradients, largest, norm))
    except (RuntimeError, NotImplementedError):  # several devices: nothing has been multiplied yet
        torch.nn.utils.clip_grads_with_norm_(parameters, largest, norm)


def _coefficient(gradients: list[Tensor], largest: float, norm: Tensor) -> Tensor | float:
    """Return largest / norm, at most 1, in the steps of rounding of clip_grads_with_norm_.

    On the CPU without small tensors, which cost more than the arithmetic.
    """
    if not norm.is_cpu or any(gradient.dtype is not torch.float32 for gradient in gradients):
        return torch.clamp(largest / (norm + 1e-6), max=1.0)
    reciprocal = np.float32(1.0) / (np.float32(norm.item()) + np.float32(1e-6))
    return float(np.minimum(reciprocal * np.float32(largest), np.float32(1.0)))
