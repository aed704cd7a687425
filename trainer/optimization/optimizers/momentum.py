"""Momentum methods: SGD, Lion, and LARS, which scales the rate of each tensor.

SGD: Polyak 1964; Nesterov's form after Sutskever et al. 2013 (ICML). Lion, evolved sign momentum: Chen et al. 2023,
arXiv:2302.06675. LARS: You, Gitman and Ginsburg 2017, arXiv:1708.03888.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from trainwright.trainer.base.section import ImpossibleError, LearningRate, NonNegativeFloat, PositiveFloat, Probability
from trainwright.trainer.optimization.optimizers.section import Betas, OptimizerSection


class Sgd(OptimizerSection):
    """Stochastic gradient descent with momentum."""

    made_by = "torch.optim.SGD"
    fused = True
    shardable = True

    name: Literal["sgd"] = "sgd"
    momentum: Probability = 0.9
    nesterov: bool = False

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and self.momentum == 0.0:
            raise ImpossibleError(
                "optimizer.nesterov needs optimizer.momentum above 0",
                {"optimizer.momentum": 0.9},
                {"optimizer.nesterov": False},
            )
        return self


class Lion(OptimizerSection):
    """The sign of an interpolated momentum."""

    made_by = "pytorch_optimizer.Lion"
    shardable = True

    name: Literal["lion"] = "lion"
    learning_rate: LearningRate = 1e-4
    weight_decay: NonNegativeFloat = 0.1
    betas: Betas = (0.9, 0.99)


class Lars(OptimizerSection):
    """SGD whose rate is scaled for each tensor by the norms of weights and gradient."""

    made_by = "pytorch_optimizer.LARS"  # in which one-dimensional parameters follow SGD without decay
    name: Literal["lars"] = "lars"
    learning_rate: LearningRate = 0.3
    weight_decay: NonNegativeFloat = 1e-4
    momentum: Probability = 0.9
    nesterov: bool = False
    trust_coefficient: PositiveFloat = 1e-3
