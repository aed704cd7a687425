"""The seam between the loop and what is being learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn


@dataclass
class Outcome:
    """What one micro-batch gave."""

    loss: Tensor
    """Scalar, attached to the graph."""
    output: Any = None
    """(batch, ...) for metrics; None when there is nothing to gather."""
    target: Any = None
    values: dict[str, Tensor | float] = field(default_factory=dict)
    """Further named numbers of the step."""


class Objective(Protocol):
    """Loss of a micro-batch, and its weight among the micro-batches of one update."""

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Compute the loss. Raises what user code raises."""
        ...

    def count(self, batch: Any) -> int:
        """Return how many terms the batch's mean loss is over."""
        ...


class NoObjective:
    """Stands where an objective would, under a train_step of the user's: its losses are not the engine's to compute."""

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:  # noqa: ARG002 - the form of an objective
        """Refuse. Raises TypeError."""
        raise TypeError("a train_step computes its losses itself: it cannot be measured in parts")

    def count(self, batch: Any) -> int:  # noqa: ARG002
        """Refuse. Raises TypeError."""
        raise TypeError("a train_step computes its losses itself: it has no terms to count")
