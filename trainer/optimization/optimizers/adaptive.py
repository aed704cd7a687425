"""Adaptive rates by coordinate: Adagrad (Duchi et al. 2011), Adadelta (Zeiler 2012), RMSprop (Hinton 2012)."""

from __future__ import annotations

from typing import Any, Literal

from trainwright.trainer.base.section import LearningRate, NonNegativeFloat, PositiveFloat, Probability
from trainwright.trainer.optimization.optimizers.section import OptimizerSection


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
