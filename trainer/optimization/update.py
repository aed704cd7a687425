"""How an update is made from the gradients that are there, or by an optimizer that asks for the loss again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainwright.trainer.reproducibility import seeding

Again = Callable[[], Tensor]
"""Measures the update's micro-batches at the present weights: sets the gradients anew, returns the loss (a scalar)."""


class Update(Protocol):
    """Chosen once for a run."""

    def begin(self) -> None:
        """Take notice that a step's loss is about to be measured."""
        ...

    def apply(self, loss: Tensor, again: Again) -> None:
        """Move the weights; `loss` and the gradients are those of the present ones."""
        ...


@dataclass(frozen=True)
class InTurn:
    """Every optimizer updates from the gradients that are there."""

    optimizers: Sequence[Optimizer]

    def begin(self) -> None:
        """Do nothing."""

    def apply(self, loss: Tensor, again: Again) -> None:  # noqa: ARG002 - the form of all updates
        """Step each optimizer."""
        for optimizer in self.optimizers:
            optimizer.step()


@dataclass
class ByClosure:
    """One optimizer that may measure the loss at weights of its choice, such as torch's LBFGS.

    All measurements of a step make the same random draws, so that they are values of one function. The first that is
    asked for has been made already, unless the optimizer moved the weights before it asked. At a rate of 0, where many
    schedules end, there is nothing to search along: LBFGS would divide by it.
    """

    optimizer: Optimizer
    parameters: Sequence[nn.Parameter]
    draws: dict[str, Any] = field(default_factory=dict)

    def begin(self) -> None:
        """Keep the state of the generators."""
        self.draws = seeding.capture()

    def apply(self, loss: Tensor, again: Again) -> None:
        """Step the optimizer with a closure."""
        if needs_closure(self.optimizer) and not any(group["lr"] for group in self.optimizer.param_groups):
            return
        gradients = [parameter.grad for parameter in self.parameters]  # held: an id is free once its tensor is gone
        measured = self._standing()

        def closure() -> Tensor:
            if self._standing() == measured:
                return loss
            with seeding.preserved(), torch.enable_grad():
                seeding.restore(self.draws)
                return again()

        self.optimizer.step(closure)  # type: ignore[arg-type]  # torch's own closures return tensors
        del gradients

    def _standing(self) -> list[tuple[int, int, int]]:
        """Return what changes whenever a weight or a gradient does."""
        return [(p._version, id(p.grad), p.grad._version if p.grad is not None else 0) for p in self.parameters]


def takes_closure(optimizer: Optimizer) -> bool:
    """Return whether the optimizer's step can be given a closure."""
    return bool(inspect.signature(optimizer.step).parameters)


def needs_closure(optimizer: Optimizer) -> bool:
    """Return whether the optimizer's step cannot do without a closure, as far as its signature tells."""
    given = inspect.signature(optimizer.step).parameters.values()
    return any(parameter.default is parameter.empty for parameter in given)
