"""L-BFGS: Liu and Nocedal 1989 (Mathematical Programming 45), its line search after Nocedal and Wright 2006."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.section import LearningRate, NonNegativeFloat
from trainwright.trainer.optimization.optimizers.section import OptimizerSection


class Lbfgs(OptimizerSection):
    """A quasi-Newton method that measures the same batch several times in each step."""

    made_by = "torch.optim.LBFGS"
    needs_closure = True

    name: Literal["lbfgs"] = "lbfgs"
    learning_rate: LearningRate = 1.0
    weight_decay: NonNegativeFloat = 0.0
    max_iterations: Annotated[int, Field(ge=1, le=1000)] = 20
    """Of one step, each with at least one forward and backward pass."""
    history: Annotated[int, Field(ge=1, le=1000)] = 10
    """Past updates that approximate the curvature; each takes two copies of the weights."""
    line_search: Literal["strong_wolfe"] | None = "strong_wolfe"

    @model_validator(mode="after")
    def _one_group(self) -> Self:
        if self.groups or self.layer_decay is not None or self.weight_decay:
            raise ValueError(
                "lbfgs takes all parameters as one, at one rate and without decay: take optimizer.groups, "
                "optimizer.layer_decay and optimizer.weight_decay out (null)"
            )
        return self

    def options(self) -> dict[str, Any]:
        """Return torch's names; update.py gives it the loss again as often as it asks."""
        return {
            "lr": self.learning_rate,
            "max_iter": self.max_iterations,
            "history_size": self.history,
            "line_search_fn": self.line_search,
        }
