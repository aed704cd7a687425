"""Stochastic gradient descent with momentum: Polyak 1964; Nesterov's form after Sutskever et al. 2013 (ICML)."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from trainwright.trainer.base.section import ImpossibleError, Probability
from trainwright.trainer.optimization.optimizers.section import OptimizerSection


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
