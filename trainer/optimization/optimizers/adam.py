"""Adam (arXiv:1412.6980), AdamW (arXiv:1711.05101), in 8 bits (arXiv:2110.02861), and Adafactor (arXiv:1804.04235)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import LearningRate, NonNegativeFloat, PositiveFloat
from trainwright.trainer.optimization.optimizers.section import Betas, Groups, Optimizer, OptimizerSection


class _WithMoments(OptimizerSection):
    """The options that Adam's family shares."""

    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-8

    def _options(self) -> dict[str, Any]:
        return {"lr": self.learning_rate, "betas": self.betas, "eps": self.eps, "weight_decay": self.weight_decay}


class Adam(_WithMoments):
    """Adam; its weight decay is a penalty added to the gradient, so it is 0 unless asked for."""

    fused = True
    shardable = True

    name: Literal["adam"] = "adam"
    weight_decay: NonNegativeFloat = 0.0

    def build(self, groups: Groups, **kernels: Any) -> Optimizer:
        """Return torch's Adam: weight decay is added to the gradient."""
        from torch import optim

        return optim.Adam(groups, **self._options(), **kernels)


class AdamW(_WithMoments):
    """Adam with decoupled weight decay."""

    fused = True
    shardable = True

    name: Literal["adamw"] = "adamw"

    def build(self, groups: Groups, **kernels: Any) -> Optimizer:
        """Return torch's AdamW: weight decay is taken off the weights."""
        from torch import optim

        return optim.AdamW(groups, **self._options(), **kernels)


class Adam8bit(_WithMoments):
    """AdamW whose moments are held in 8 bits (needs the package bitsandbytes)."""

    name: Literal["adam8bit"] = "adam8bit"

    def build(self, groups: Groups) -> Optimizer:
        """Return bitsandbytes' AdamW8bit; it keeps tensors of fewer than 4096 entries in 32 bits.

        Raises:
            ConfigurationError: bitsandbytes is missing or does not load here; no other optimizer takes its place.
        """
        try:
            from bitsandbytes.optim import AdamW8bit
        except (ImportError, OSError, RuntimeError) as error:
            raise ConfigurationError(
                f"`optimizer.name` = 'adam8bit' needs the package bitsandbytes, which does not load here: {error}.",
                remedy="Install it beside Trainwright (pip install bitsandbytes), or set optimizer.name adamw.",
                document="configs/README.md",
            ) from error
        optimizer: Optimizer = AdamW8bit(groups, **self._options())
        return optimizer


class Adafactor(OptimizerSection):
    """Second moments held as rows and columns; the rate is relative to the size of the weights."""

    name: Literal["adafactor"] = "adafactor"
    learning_rate: LearningRate = 1e-2
    weight_decay: NonNegativeFloat = 0.0
    beta2_decay: Annotated[float, Field(ge=-10.0, le=0.0)] = -0.8
    clip_threshold: Annotated[float, Field(ge=1.0, le=1e9)] = 1.0
    minimum_scale: PositiveFloat = 1e-3
    """Least size (root mean square) that a tensor counts with when its rate is scaled."""

    def build(self, groups: Groups) -> Optimizer:
        """Return torch's Adafactor, its rates relative to the size of the weights."""
        from torch import optim

        return optim.Adafactor(
            groups,
            lr=self.learning_rate,
            beta2_decay=self.beta2_decay,
            eps=(None, self.minimum_scale),
            d=self.clip_threshold,
            weight_decay=self.weight_decay,
        )
