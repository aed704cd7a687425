"""Observers of a run: the moments at which the loop calls them, and the results that it hands over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from trainwright.trainer.engine.session import Session


@dataclass
class StepResult:
    """Result of one step. Tensors stay on the device until the recorder reads them."""

    step: int
    """Number of the step, from 1."""
    epoch: int
    batch: int
    """Number of its first micro-batch in the epoch."""
    micro_batches: int
    loss: Tensor
    gradient_norm: Tensor | None
    """None where the user's train_step has cleared the gradients before they could be measured."""
    learning_rate: float
    samples: int
    values: dict[str, Tensor | float] = field(default_factory=dict)


@dataclass
class EpochResult:
    """Result of one epoch."""

    epoch: int
    """Its number, from 1."""
    step: int
    train: dict[str, float]
    validation: dict[str, float] | None
    """None in epochs without validation."""
    seconds: float
    improved: bool = False
    """Whether it is the best so far; set by the selection."""


class Observer:
    """Watches a run; each moment does nothing unless an observer needs it."""

    def start(self, session: Session) -> None:
        """Before the first step of this attempt."""

    def step(self, session: Session, result: StepResult) -> None:
        """After each optimizer step. Must not wait for the device."""

    def trained(self, session: Session) -> None:
        """After the last step of each epoch, before anything is measured of it."""

    def epoch(self, session: Session, result: EpochResult) -> None:
        """After each epoch, validated where it is due; the position is the next epoch's start."""

    def stop(self, session: Session, reason: str) -> None:
        """After the last step, when training ended in order."""

    def close(self) -> None:
        """In any case, at the very end."""


class Observers:
    """Observers of a run, called in order."""

    def __init__(self, observers: Sequence[Observer], stage: Callable[[str], None]) -> None:
        self.observers = observers
        self.stage = stage
        """Reports the worker's present activity."""

    def start(self, session: Session) -> None:
        """See Observer."""
        for observer in self.observers:
            observer.start(session)
        self.stage("training")

    def step(self, session: Session, result: StepResult) -> None:
        """See Observer."""
        for observer in self.observers:
            observer.step(session, result)

    def trained(self, session: Session) -> None:
        """See Observer."""
        for observer in self.observers:
            observer.trained(session)

    def epoch(self, session: Session, result: EpochResult) -> None:
        """See Observer."""
        for observer in self.observers:
            observer.epoch(session, result)
        self.stage("training")

    def stop(self, session: Session, reason: str) -> None:
        """See Observer."""
        for observer in self.observers:
            observer.stop(session, reason)

    def close(self) -> None:
        """See Observer."""
        for observer in self.observers:
            observer.close()
