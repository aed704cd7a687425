"""Adam (arXiv:1412.6980), AdamW (arXiv:1711.05101), in 8 bits (arXiv:2110.02861), and Adafactor (arXiv:1804.04235)."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, Literal

from pydantic import Field

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import LearningRate, NonNegativeFloat, PositiveFloat
from trainwright.trainer.optimization.optimizers.section import Betas, Groups, Optimizer, OptimizerSection


class Adam(OptimizerSection):
    """Adam; its weight decay is a penalty added to the gradient, so it is 0 unless asked for."""

    made_by = "torch.optim.Adam"
    fused = True
    shardable = True

    name: Literal["adam"] = "adam"
    weight_decay: NonNegativeFloat = 0.0
    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-8


class AdamW(OptimizerSection):
    """Adam with decoupled weight decay."""

    made_by = "torch.optim.AdamW"
    fused = True
    shardable = True

    name: Literal["adamw"] = "adamw"
    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-8


class Adam8bit(OptimizerSection):
    """AdamW whose moments are held in 8 bits (needs the package bitsandbytes)."""

    made_by = "bitsandbytes.optim.AdamW8bit"

    name: Literal["adam8bit"] = "adam8bit"
    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-8

    def build(self, groups: Groups, **kernels: Any) -> Optimizer:
        """Return bitsandbytes' AdamW8bit; it keeps tensors of fewer than 4096 entries in 32 bits.

        Raises:
            ConfigurationError: bitsandbytes is missing or does not load here; no other optimizer takes its place.
        """
        try:
            import_module("bitsandbytes.optim")
        except (ImportError, OSError, RuntimeError) as error:
            raise ConfigurationError(
                f"`optimizer.name` = 'adam8bit' needs the package bitsandbytes, which does not load here: {error}.",
                remedy="Install it beside Trainwright (pip install bitsandbytes), or set optimizer.name adamw.",
                document="configs/README.md",
            ) from error
        return super().build(groups, **kernels)


class Adafactor(OptimizerSection):
    """Second moments held as rows and columns; the rate is relative to the size of the weights."""

    made_by = "torch.optim.Adafactor"
    name: Literal["adafactor"] = "adafactor"
    learning_rate: LearningRate = 1e-2
    weight_decay: NonNegativeFloat = 0.0
    beta2_decay: Annotated[float, Field(ge=-10.0, le=0.0)] = -0.8
    clip_threshold: Annotated[float, Field(ge=1.0, le=1e9)] = 1.0
    minimum_scale: PositiveFloat = 1e-3
    """Least size (root mean square) that a tensor counts with when its rate is scaled."""

    def options(self) -> dict[str, Any]:
        """Return torch's names."""
        return {
            "lr": self.learning_rate,
            "weight_decay": self.weight_decay,
            "beta2_decay": self.beta2_decay,
            "eps": (None, self.minimum_scale),
            "d": self.clip_threshold,
        }
