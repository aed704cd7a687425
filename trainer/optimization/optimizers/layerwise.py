"""Trust ratios by tensor, for large batches.

LAMB: You et al. 2020, arXiv:1904.00962, version 3 (without bias correction, weight norms cut at 10). LARS: You, Gitman
and Ginsburg 2017, arXiv:1708.03888.
"""

from __future__ import annotations

from typing import Literal

from trainwright.trainer.base.section import LearningRate, NonNegativeFloat, PositiveFloat, Probability
from trainwright.trainer.optimization.optimizers.section import Betas, Groups, Optimizer, OptimizerSection


class Lamb(OptimizerSection):
    """Adam with a trust ratio for each tensor, for large batches."""

    name: Literal["lamb"] = "lamb"
    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-6

    def build(self, groups: Groups) -> Optimizer:
        """Return pytorch-optimizer's LAMB."""
        import pytorch_optimizer

        return pytorch_optimizer.Lamb(
            groups,
            lr=self.learning_rate,
            betas=self.betas,
            eps=self.eps,
            weight_decay=self.weight_decay,
            weight_decouple=False,  # the paper's: decay is part of the update whose norm the trust ratio takes
            adam_debias=True,  # else the package divides the rate by 1 - beta1**t: ten times too far at the first step
        )


class Lars(OptimizerSection):
    """SGD whose rate is scaled for each tensor by the norms of weights and gradient."""

    name: Literal["lars"] = "lars"
    learning_rate: LearningRate = 0.3
    weight_decay: NonNegativeFloat = 1e-4
    momentum: Probability = 0.9
    nesterov: bool = False
    trust_coefficient: PositiveFloat = 1e-3

    def build(self, groups: Groups) -> Optimizer:
        """Return pytorch-optimizer's LARS; one-dimensional parameters follow SGD without decay."""
        import pytorch_optimizer

        return pytorch_optimizer.LARS(
            groups,
            lr=self.learning_rate,
            momentum=self.momentum,
            nesterov=self.nesterov,
            trust_coefficient=self.trust_coefficient,
            weight_decay=self.weight_decay,
        )
