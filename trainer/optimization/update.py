"""Updates: gradient norm, clipping, and how an optimizer is stepped."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainwright.trainer.base import seeding
from trainwright.trainer.optimization import norms

library: Any = torch.nn.utils if hasattr(torch.nn.utils, "get_total_norm") else norms
"""Where the norm of any gradients is: torch 2.6 has it."""


def total_norm(gradients: list[Tensor]) -> Tensor:
    """Return the 2-norm over all entries of gradients, a scalar on their device; 0 of none.

    The value is that of torch.nn.utils.get_total_norm, whose sorting by device and dtype costs more than the norms
    of a small model; it is left to it where there is something to sort.
    """
    if not gradients:
        return torch.zeros(())
    if gradients[0].requires_grad or type(gradients[0]) is not Tensor:
        return _of_library(gradients)
    try:
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    except (RuntimeError, NotImplementedError):  # several devices, say
        return _of_library(gradients)
    return norm


def _of_library(gradients: list[Tensor]) -> Tensor:
    norm: Tensor = library.get_total_norm(gradients)
    return norm


def clip_to(parameters: list[nn.Parameter], gradients: list[Tensor], largest: float, norm: Tensor) -> None:
    """Scale gradients whose norm (a scalar) is above `largest` down to it, to the bits of clip_grads_with_norm_.

    On the CPU, where looking costs nothing, gradients well below the limit are not multiplied by one.
    """
    if norm.is_cpu and norm.item() < 0.999 * largest:
        return
    if not gradients or type(gradients[0]) is not Tensor:  # shards of them, say
        library.clip_grads_with_norm_(parameters, largest, norm)
        return
    try:
        with torch.no_grad():
            torch._foreach_mul_(gradients, _coefficient(gradients, largest, norm))
    except (RuntimeError, NotImplementedError):  # several devices: nothing has been multiplied yet
        library.clip_grads_with_norm_(parameters, largest, norm)


def _coefficient(gradients: list[Tensor], largest: float, norm: Tensor) -> Tensor | float:
    """Return largest / norm, at most 1, in the steps of rounding of clip_grads_with_norm_.

    On the CPU without small tensors, which cost more than the arithmetic.
    """
    if not norm.is_cpu or any(gradient.dtype is not torch.float32 for gradient in gradients):
        return torch.clamp(largest / (norm + 1e-6), max=1.0)
    reciprocal = np.float32(1.0) / (np.float32(norm.item()) + np.float32(1e-6))
    return float(np.minimum(reciprocal * np.float32(largest), np.float32(1.0)))


class NonFinite:
    """Whether any value noted so far was not finite, kept on the device: nothing waits for it.

    One kernel for each note, that of torch.amp.GradScaler, which multiplies by the reciprocal of a scale as well: by 1
    here, which changes no bit. A small model's step is bound by the launches of its kernels.

    Attributes:
        found: a scalar, 1.0 once something was not finite, and from then on; else 0.0.
    """

    def __init__(self, device: torch.device) -> None:
        self.found = torch.zeros((), device=device)
        self._one = torch.ones((), device=device)

    def note(self, *values: Tensor) -> None:
        """Note values of any shape, which keep their bits."""
        self._look(values, self.found)

    def with_(self, value: Tensor) -> Tensor:
        """Return `found`, a scalar, as it would be with a further value of any shape."""
        found = self.found.clone()
        self._look([value], found)
        return found

    def _look(self, values: Sequence[Tensor], found: Tensor) -> None:
        # on CUDA it takes no bfloat16, and nothing of the CPU: user code may compute a loss there
        wide = [value.float() if value.element_size() < 4 else value for value in values]
        here = [value.to(found.device, non_blocking=True) for value in wide]
        torch._amp_foreach_non_finite_check_and_unscale_(here, found, self._one)


Again = Callable[[], Tensor]
"""Measures the update's micro-batches at the present weights: sets the gradients anew, returns the loss (a scalar)."""


class Update(Protocol):
    """Chosen once for a run."""

    def begin(self) -> None:
        """Take notice that a step's loss is about to be measured."""
        ...

    def apply(self, loss: Tensor, again: Again) -> None:
        """Move the weights; `loss` (a scalar) and the gradients are those of the present ones."""
        ...


@dataclass(frozen=True)
class InTurn:
    """Every optimizer updates from the gradients that are there."""

    optimizers: Sequence[Optimizer]

    def begin(self) -> None:
        """Do nothing."""

    def apply(self, loss: Tensor, again: Again) -> None:  # noqa: ARG002 - the form of all updates
        """Step each optimizer; `loss` (a scalar) is measured already."""
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
        """Step the optimizer with a closure that returns the loss (a scalar)."""
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

        self.optimizer.step(closure)  # type: ignore[arg-type]  # torch's closures return tensors
        del gradients

    def _standing(self) -> list[tuple[int, int, int]]:
        """Return a value that changes whenever a weight or a gradient does."""
        return [(p._version, id(p.grad), p.grad._version if p.grad is not None else 0) for p in self.parameters]


def takes_closure(optimizer: Optimizer) -> bool:
    """Return whether the optimizer's step can be given a closure."""
    return bool(inspect.signature(optimizer.step).parameters)


def needs_closure(optimizer: Optimizer) -> bool:
    """Return whether the optimizer's step cannot do without a closure, as far as its signature shows."""
    given = inspect.signature(optimizer.step).parameters.values()
    return any(parameter.default is parameter.empty for parameter in given)
