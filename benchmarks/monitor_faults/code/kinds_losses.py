"""Losses of the sound kinds, as users write them: likelihoods that go below zero."""

from __future__ import annotations

from torch import Tensor, nn


def poisson(output: Tensor, target: Tensor) -> Tensor:
    """Return the Poisson likelihood's loss, which may be below zero."""
    return nn.functional.poisson_nll_loss(output, target)


def gaussian(output: Tensor, target: Tensor) -> Tensor:
    """Return the likelihood's loss of (mean, logarithm of the deviation)."""
    mean, logarithm = output.unbind(-1)
    return (0.5 * ((target - mean) / logarithm.exp()) ** 2 + logarithm).mean()


def quantile(output: Tensor, target: Tensor) -> Tensor:
    """Return the pinball loss of the ninth tenth."""
    apart = target - output
    return (0.9 * apart.relu() + 0.1 * (-apart).relu()).mean()
