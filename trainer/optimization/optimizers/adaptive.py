"""Adaptive rates by coordinate: Adam and its kin.

Adam (arXiv:1412.6980), AdamW (arXiv:1711.05101), in 8 bits (arXiv:2110.02861), Adafactor (arXiv:1804.04235), Adagrad
(Duchi et al. 2011), Adadelta (Zeiler 2012), RMSprop (Hinton 2012). LAMB: You et al. 2020, arXiv:1904.00962, version 3
(without bias correction, weight norms cut at 10).
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, Literal

from pydantic import Field

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import LearningRate, NonNegativeFloat, PositiveFloat, Probability
from trainwright.trainer.optimization.optimizers.section import Betas, Groups, Optimizer, OptimizerSection


class Adam(OptimizerSection):
    """Adam; its weight decay is a penalty added to the gradient, so it is 0 by default."""

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
    """AdamW whose moments are stored in 8 bits (needs the package bitsandbytes)."""

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


class Lamb(OptimizerSection):
    """Adam with a trust ratio for each tensor, for large batches."""

    made_by = "pytorch_optimizer.Lamb"
    name: Literal["lamb"] = "lamb"
    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-6

    def options(self) -> dict[str, Any]:
        """Return the paper's form."""
        return {
            **super().options(),
            "weight_decouple": False,  # the paper's: decay is part of the update whose norm the trust ratio takes
            "adam_debias": True,  # else the package divides the rate by 1 - beta1**t: ten times too far at first
        }


class Adafactor(OptimizerSection):
    """Second moments stored as rows and columns; the rate is relative to the size of the weights."""

    made_by = "torch.optim.Adafactor"
    since = releases.ADAFACTOR
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


class Adadelta(OptimizerSection):
    """Steps scaled by the ratio of the means of past steps and gradients; its decay is added to the gradient."""

    made_by = "torch.optim.Adadelta"
    name: Literal["adadelta"] = "adadelta"
    learning_rate: LearningRate = 1.0
    weight_decay: NonNegativeFloat = 0.0
    rho: Probability = 0.9
    eps: PositiveFloat = 1e-6


class RmsProp(OptimizerSection):
    """Gradients divided by the root of their mean square; its decay is added to the gradient."""

    made_by = "torch.optim.RMSprop"
    name: Literal["rmsprop"] = "rmsprop"
    weight_decay: NonNegativeFloat = 0.0
    alpha: Probability = 0.99
    """Decay of the mean square."""
    eps: PositiveFloat = 1e-8
    momentum: Probability = 0.0
    centered: bool = False


class Adagrad(OptimizerSection):
    """Gradients divided by the root of the sum of their squares; its decay is added to the gradient."""

    made_by = "torch.optim.Adagrad"
    name: Literal["adagrad"] = "adagrad"
    learning_rate: LearningRate = 1e-2
    weight_decay: NonNegativeFloat = 0.0
    initial_accumulator: NonNegativeFloat = 0.0
    eps: PositiveFloat = 1e-10

    def options(self) -> dict[str, Any]:
        """Return torch's name for the accumulator's start."""
        options = super().options()
        options["initial_accumulator_value"] = options.pop("initial_accumulator")
        return options


# NAdam, Adam with Nesterov's momentum: Dozat 2016, "Incorporating Nesterov momentum into Adam" (ICLR workshop).


class NAdam(OptimizerSection):
    """Adam that looks ahead along its momentum, with decoupled weight decay."""

    made_by = "torch.optim.NAdam"

    name: Literal["nadam"] = "nadam"
    learning_rate: LearningRate = 2e-3
    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-8
    momentum_decay: PositiveFloat = 4e-3

    def options(self) -> dict[str, Any]:
        """Return torch's arguments: the decay is taken off the weights, as AdamW's is."""
        return {**super().options(), "decoupled_weight_decay": True}
