"""Components of a run's state, saved and loaded: all that the next step depends on; and steps that are undone."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.optim import Optimizer

from trainwright.trainer.acceleration.prepare import match_layout
from trainwright.trainer.base import seeding
from trainwright.trainer.checkpoints.packing import hidden_buffers, restore_hidden_buffers
from trainwright.trainer.checkpoints.user_state import Kinds, load_into, require_resumable, unchanged

if TYPE_CHECKING:
    from trainwright.trainer.engine.session import Session


class Stateful(Protocol):
    """Part of a run that the next step depends on; a module is one, and so is an optimizer."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint: tensors, plain values, and containers of both."""
        ...

    def load_state_dict(self, state: dict[str, Any], /) -> Any:
        """Resume from a checkpoint's state, in place."""
        ...


@dataclass(frozen=True)
class HiddenBuffers:
    """Buffers that the model keeps out of its state_dict."""

    model: nn.Module

    def state_dict(self) -> dict[str, Any]:
        """Return them by their full names."""
        return dict(hidden_buffers(self.model))

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Put them back."""
        restore_hidden_buffers(self.model, state)


@dataclass(frozen=True)
class OptimizerStates:
    """The states of all optimizers, by name.

    Attributes:
        channels_last: whether the weights, and so any loaded state, have that layout.
    """

    optimizers: Mapping[str, Optimizer]
    channels_last: bool

    def state_dict(self) -> dict[str, Any]:
        """Return each optimizer's state."""
        return {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Load each optimizer's state."""
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state[name])
            _return_products(optimizer)
        if self.channels_last:
            match_layout(self.optimizers.values())


def _return_products(optimizer: Optimizer) -> None:
    """Put NAdam's products beside their steps: torch makes both on the CPU, and loads the products onto the GPU.

    There each step would wait for them.
    """
    for values in optimizer.state.values():
        if "mu_product" in values:
            values["mu_product"] = values["mu_product"].to(values["step"].device)


@dataclass(frozen=True)
class LeftGradients:
    """Gradients that a user's train_step leaves for its next call; the engine's steps leave none."""

    model: nn.Module

    def state_dict(self) -> dict[str, Any]:
        """Return them by the parameters' names."""
        return {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Put them back; a parameter without one has none."""
        for name, parameter in self.model.named_parameters():
            parameter.grad = state.get(name)


@dataclass(frozen=True)
class CarriedState:
    """State that user code keeps in context.state between steps.

    Attributes:
        built: kinds of the values that are not plain and that the user's build put there.
    """

    state: dict[str, Any]
    built: Kinds

    def state_dict(self) -> dict[str, Any]:
        """Return it. Raises UserCodeError for a value that a resumed run could not load."""
        require_resumable(self.state, self.built)
        return self.state

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Put it back in place: the user's functions may refer to it too."""
        load_into(self.state, state)


class Generators:
    """The global random generators: Python's, NumPy's and torch's."""

    def state_dict(self) -> dict[str, Any]:
        """Return their states."""
        return seeding.capture()

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Put them back; nothing may draw between this and the next step."""
        seeding.restore(state)


@contextmanager
def snapshot(components: Mapping[str, Stateful], *names: str) -> Iterator[None]:
    """Undo all changes of the named components inside the context."""
    kept = {name: copy.deepcopy(components[name].state_dict()) for name in names}
    yield
    for name, state in kept.items():
        components[name].load_state_dict(state)


@contextmanager
def untouched(session: Session) -> Iterator[None]:
    """Undo a tried step's changes to the model, its gradients, the user's state and the generators.

    Raises:
        UserCodeError: the step put a value into the user's state that no resumed run could load.
    """
    carried = unchanged(session.context.state, session.built_state, session.device)
    with seeding.preserved(), kept_state(session.model), kept_state(session.auxiliary.modules), carried:
        yield
    for optimizer in session.optimizers.values():
        optimizer.zero_grad(set_to_none=True)
    session.model.zero_grad(set_to_none=True)


@contextmanager
def kept_state(model: nn.Module) -> Iterator[None]:
    """Put parameters and buffers back (batch statistics move in a forward pass); lazy ones stay as they became."""
    kept = {
        name: value.detach().clone()
        for name, value in (*model.named_parameters(), *model.named_buffers())
        if not isinstance(value, UninitializedParameter | UninitializedBuffer)
    }
    yield
    with torch.no_grad():
        for name, value in (*model.named_parameters(), *model.named_buffers()):
            if name in kept and kept[name].shape == value.shape:
                value.copy_(kept[name])
