"""Adaptive rates by coordinate: Adagrad (Duchi et al. 2011), Adadelta (Zeiler 2012), RMSprop (Hinton 2012)."""

from __future__ import annotations

from typing import Literal

from trainwright.trainer.base.section import LearningRate, NonNegativeFloat, PositiveFloat, Probability
from trainwright.trainer.optimization.optimizers.section import Groups, Optimizer, OptimizerSection


class Adadelta(OptimizerSection):
    """Steps scaled by the ratio of the means of past steps and gradients; its decay is added to the gradient."""

    name: Literal["adadelta"] = "adadelta"
    learning_rate: LearningRate = 1.0
    weight_decay: NonNegativeFloat = 0.0
    rho: Probability = 0.9
    eps: PositiveFloat = 1e-6

    def build(self, groups: Groups) -> Optimizer:
        """Return torch's Adadelta."""
        from torch import optim

        return optim.Adadelta(groups, lr=self.learning_rate, rho=self.rho, eps=self.eps, weight_decay=self.weight_decay)


class RmsProp(OptimizerSection):
    """Gradients divided by the root of their mean square; its decay is added to the gradient."""

    name: Literal["rmsprop"] = "rmsprop"
    weight_decay: NonNegativeFloat = 0.0
    alpha: Probability = 0.99
    """Decay of the mean square."""
    eps: PositiveFloat = 1e-8
    momentum: Probability = 0.0
    centered: bool = False

    def build(self, groups: Groups) -> Optimizer:
        """Return torch's RMSprop."""
        from torch import optim

        return optim.RMSprop(
            groups,
            lr=self.learning_rate,
            alpha=self.alpha,
            eps=self.eps,
            momentum=self.momentum,
            centered=self.centered,
            weight_decay=self.weight_decay,
        )


class Adagrad(OptimizerSection):
    """Gradients divided by the root of the sum of their squares; its decay is added to the gradient."""

    name: Literal["adagrad"] = "adagrad"
    learning_rate: LearningRate = 1e-2
    weight_decay: NonNegativeFloat = 0.0
    initial_accumulator: NonNegativeFloat = 0.0
    eps: PositiveFloat = 1e-10

    def build(self, groups: Groups) -> Optimizer:
        """Return torch's Adagrad."""
        from torch import optim

        return optim.Adagrad(
            groups,
            lr=self.learning_rate,
            initial_accumulator_value=self.initial_accumulator,
            eps=self.eps,
            weight_decay=self.weight_decay,
        )
