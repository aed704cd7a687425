"""Trust ratios by tensor, for large batches.

LAMB: You et al. 2020, arXiv:1904.00962, version 3 (without bias correction, weight norms cut at 10). LARS: You, Gitman
and Ginsburg 2017, arXiv:1708.03888.
"""

from __future__ import annotations

from typing import Any, Literal

from trainwright.trainer.base.section import LearningRate, NonNegativeFloat, PositiveFloat, Probability
from trainwright.trainer.optimization.optimizers.section import Betas, OptimizerSection


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


class Lars(OptimizerSection):
    """SGD whose rate is scaled for each tensor by the norms of weights and gradient."""

    made_by = "pytorch_optimizer.LARS"  # in which one-dimensional parameters follow SGD without decay
    name: Literal["lars"] = "lars"
    learning_rate: LearningRate = 0.3
    weight_decay: NonNegativeFloat = 1e-4
    momentum: Probability = 0.9
    nesterov: bool = False
    trust_coefficient: PositiveFloat = 1e-3
