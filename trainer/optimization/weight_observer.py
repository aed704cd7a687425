"""Observers of the weights: what happens to them beside the update, and which of their values are judged."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any


class WeightObserver:
    """One of a run's techniques; each moment does nothing unless the technique needs it.

    Attributes:
        state_name: the name of its state among the components of the run; None where it has none.
        moves_at_epoch_end: whether a validation cannot be repeated after it without moving it again.
    """

    state_name: str | None = None
    moves_at_epoch_end: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether this run has anything for it to do."""
        return True

    def before_epoch(self, finished_epochs: int) -> None:
        """Prepare the weights for an epoch, or for the rest of one that is resumed."""

    def after_step(self) -> None:
        """Follow an optimizer step. Does not wait for the device."""

    def after_epoch(self, finished_epochs: int) -> bool:  # noqa: ARG002 - the moment's form
        """Follow an epoch's end; return whether the judged weights need new statistics of batch normalisation."""
        return False

    def take_buffers(self) -> None:
        """Take over the model's buffers for the judged weights (called inside `judged`)."""

    def judged(self) -> AbstractContextManager[None]:
        """Hold the weights that are judged and exported in the model inside the context; it is undone exactly."""
        return nullcontext()

    def settle(self) -> None:
        """Leave the judged weights in the model for good: training is over."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps beside the model's file, which holds the judged weights."""
        return {}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Resume from what a checkpoint kept; the model holds the judged weights by then, afterwards the trained."""
