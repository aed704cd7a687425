"""A model together with what measures it."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from trainwright.trainer.objectives.outcome import Objective, Outcome


class Measured(nn.Module):
    """The objective as a module: inside its forward the model is called in whichever way the objective calls it."""

    def __init__(self, model: nn.Module, objective: Objective, parameters: list[nn.Parameter]) -> None:
        super().__init__()
        self.model, self.objective = model, objective
        self.outcome: Outcome | None = None
        own = {id(parameter) for parameter in self.parameters()}
        self.others = nn.ParameterList([parameter for parameter in parameters if id(parameter) not in own])

    def forward(self, batch: Any) -> Tensor:
        """Return the loss alone: the gradient's exchange follows the graph of what is returned."""
        self.outcome = self.objective(self.model, batch)
        return self.outcome.loss
