"""Lion, evolved sign momentum: Chen et al. 2023, arXiv:2302.06675."""

from __future__ import annotations

from typing import Literal

from trainwright.trainer.base.section import LearningRate, NonNegativeFloat
from trainwright.trainer.optimization.optimizers.section import Betas, OptimizerSection


class Lion(OptimizerSection):
    """The sign of an interpolated momentum."""

    made_by = "pytorch_optimizer.Lion"
    shardable = True

    name: Literal["lion"] = "lion"
    learning_rate: LearningRate = 1e-4
    weight_decay: NonNegativeFloat = 0.1
    betas: Betas = (0.9, 0.99)
