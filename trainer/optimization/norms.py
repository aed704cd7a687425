"""Norm and clipping as torch.nn.utils has them from 2.6 on, for the gradients of a torch before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn


def get_total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the 2-norm over all entries of gradients, a scalar on the first one's device."""
    norms = [torch.linalg.vector_norm(gradient, 2.0).to(gradients[0].device) for gradient in gradients]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms), 2.0)
    return norm


@torch.no_grad()
def clip_grads_with_norm_(parameters: Iterable[nn.Parameter], largest: float, norm: Tensor) -> None:
    """Scale the parameters' gradients, whose norm (a scalar) is given, down to `largest`."""
    coefficient = torch.clamp(largest / (norm + 1e-6), max=1.0)
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(coefficient.to(parameter.grad.device))
