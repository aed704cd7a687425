"""NAdam, Adam with Nesterov's momentum: Dozat 2016, "Incorporating Nesterov momentum into Adam" (ICLR workshop)."""

from __future__ import annotations

from typing import Any, Literal

from trainwright.trainer.base.section import LearningRate, PositiveFloat
from trainwright.trainer.optimization.optimizers.section import Betas, OptimizerSection


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
