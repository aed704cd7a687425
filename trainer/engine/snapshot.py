"""Steps on trial: what they do to a session is undone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from trainwright.trainer.base import seeding
from trainwright.trainer.checkpoints.user_state import unchanged
from trainwright.trainer.engine.session import Session


@contextmanager
def untouched(session: Session) -> Iterator[None]:
    """Undo what a step on trial does to the model, its gradients, the user's state and the generators.

    Raises:
        UserCodeError: the step put something into the user's state that no resumed run could take up.
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
