"""Strategies of sharing a run among processes: the interface for the engine, and that of one process alone.

Each process of a group goes through the same steps and calls in the same order; the strategies for groups
(strategies/) override the methods that differ. So no step needs to know whether it is shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from trainwright.trainer.config.schema import TrainingSection
from trainwright.trainer.engine.components import Stateful
from trainwright.trainer.engine.totals import EpochTotals
from trainwright.trainer.objectives.objective import Objective, Outcome
from trainwright.trainer.optimization.update import clip_to, total_norm


class Strategy:
    """One process that trains alone.

    Attributes:
        is_first: whether this process writes for all.
        checks_first: whether a non-finite update must be found before it is made: the device cannot hold it back.
        watched_process: the process whose tree is the run; None for this one.
    """

    is_first: bool = True
    checks_first: bool = False
    watched_process: int | None = None

    def begin(self, group: list[Any], counts: list[int]) -> tuple[list[int], int]:  # noqa: ARG002 - others need it
        """Open an update of the micro-batches `group`; return this process's counts and the total of all processes."""
        return counts, sum(counts)

    def measure(self, objective: Objective, model: nn.Module, batch: Any) -> Outcome:
        """Compute the loss of one micro-batch. Raises the user code's errors."""
        return objective(model, batch)

    def backward(self, loss: Tensor) -> None:
        """Add a micro-batch's share of the loss (a scalar) to the gradients of the update."""
        loss.backward()  # type: ignore[no-untyped-call]

    def finish(self, loss: Tensor) -> Tensor:
        """Return the loss (a scalar) of the update after its last micro-batch."""
        return loss

    def clip(self, parameters: list[nn.Parameter], training: TrainingSection) -> tuple[Tensor, dict[str, Tensor]]:
        """Clip the gradients as configured; return their norm (a scalar), and the clipped one as a step's value."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm: Tensor = self.full(total_norm(gradients))
        if training.clip_norm is not None:
            clip_to(parameters, gradients, training.clip_norm, norm)
            return norm, {"applied_gradient_norm": norm.clamp(max=training.clip_norm)}
        if training.clip_value is not None:
            torch.nn.utils.clip_grad_value_(parameters, training.clip_value)
            return norm, {"applied_gradient_norm": self.full(total_norm(gradients))}
        return norm, {}

    def samples(self, own: int) -> int:
        """Return the samples of the present update over all processes, `own` of which are this one's."""
        return own

    def show_gradients(self) -> None:
        """Put the full gradients into `.grad` before a non-finite one is reported."""

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor of any shape over all processes, on its device."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """Return every process's value (of types that checkpoints store), by rank, in the first; elsewhere nothing."""
        return [value]

    def agreed(self, values: dict[str, float]) -> dict[str, float]:
        """Return the first process's values, so that decisions by them are the same everywhere."""
        return values

    def merged(self, totals: EpochTotals) -> EpochTotals:
        """Return the totals of all processes; outputs and targets in the samples' order, in the first process only."""
        return totals

    def full(self, value: Any) -> Any:
        """Return a nested value with full tensors in place of divided ones; all processes call it together."""
        return value

    def part(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a checkpoint's state, by component, as this process holds it. Raises IntegrityError if it cannot."""
        return state

    def add_own_states(
        self, packed: dict[str, Any], tensors: dict[str, Tensor], components: Mapping[str, Stateful]
    ) -> None:
        """Put each process's own state into the first one's checkpoint."""

    def follow_weights(self) -> None:
        """Take over weights that were loaded into the model."""

    def require_same(self, checkpoint: str | None) -> None:
        """Check that every process resumes the first one's checkpoint. Raises IntegrityError where it differs."""
