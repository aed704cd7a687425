"""The moments at which the loop tells its observers what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainwright.trainer.engine.session import Session
from trainwright.trainer.engine.step import StepResult


@dataclass
class EpochResult:
    """What one epoch gave."""

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
    """The observers of a run, told in order."""

    def __init__(self, observers: Sequence[Observer], stage: Callable[[str], None]) -> None:
        self.observers = observers
        self.stage = stage
        """Says what the worker does now."""

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
