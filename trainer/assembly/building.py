"""Building of a session's parts: as they are, or (for an estimate) as sizes without memory."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from torch import nn


class Building:
    """Parts as they are: those of every run.

    Attributes:
        imagined: whether parts have sizes and no contents; then no weights are read, and no batch is tried.
    """

    imagined: bool = False

    def model(self) -> AbstractContextManager[object]:
        """Return the context in which a model, and what is put into it, is built."""
        return nullcontext()

    def built(self, model: nn.Module) -> nn.Module:
        """Return the model that is used in place of one that the user's task handed over."""
        return model


AS_IT_IS = Building()
