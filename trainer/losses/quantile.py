"""The pinball loss, whose least mean is at a quantile of the target (Koenker and Bassett 1978, 10.2307/1913643)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from trainwright.trainer.losses.built_in import Mse

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright.trainer.losses.loss import Compute


class Quantile(Mse):
    """What is too low costs `quantile` of the difference, what is too high the rest of it."""

    name = "quantile"

    quantile: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """Share of the targets that are to lie below the output."""

    def function(self) -> Callable[..., Compute]:
        """Return what makes the mean over targets (batch) or (batch, numbers)."""
        return lambda quantile: partial(_pinball, quantile)


def _pinball(quantile: float, output: Tensor, target: Tensor) -> Tensor:
    """Return the mean pinball loss; a scalar."""
    missing = target.to(output.dtype) - output.reshape(target.shape)
    return (quantile * missing).maximum((quantile - 1.0) * missing).mean()
