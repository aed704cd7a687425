"""The log-cosh loss of numbers: squared near 0, linear far away (Saleh and Saleh 2022, arXiv:2208.04564)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from trainwright.trainer.losses.built_in import Mse

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright.trainer.losses.loss import Compute


class LogCosh(Mse):
    """The logarithm of the hyperbolic cosine of the difference."""

    name = "log_cosh"

    def function(self) -> Callable[..., Compute]:
        """Return what makes the mean over targets (batch) or (batch, numbers)."""
        return lambda: _log_cosh


def _log_cosh(output: Tensor, target: Tensor) -> Tensor:
    """Return the mean of |d| + softplus(-2 |d|) - log 2, which is log cosh d and does not overflow; a scalar."""
    from torch.nn import functional as F  # noqa: N812 - torch's own name for it

    distance = (output.reshape(target.shape) - target.to(output.dtype)).abs()
    return (distance + F.softplus(-2.0 * distance) - math.log(2.0)).mean()
