"""Reporter of where a run stands, and the guard of its deterministic settings."""

from __future__ import annotations

from trainwright.trainer.engine.observers.observer import EpochResult, Observer, StepResult
from trainwright.trainer.engine.session import Session
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.supervision.heartbeat import Heartbeat


class Reporter(Observer):
    """Tells the heartbeat the position, and the event log each epoch."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self.heartbeat = heartbeat

    def start(self, session: Session) -> None:
        """Show the position and the plan."""
        self.heartbeat.set(
            step=session.progress.step,
            epoch=session.progress.epoch,
            total_steps=min(session.total_steps, session.step_bound or session.total_steps),
            total_epochs=session.config.training.epochs,
        )

    def step(self, session: Session, result: StepResult) -> None:  # noqa: ARG002 - the moment's form
        """Keep the position; the heartbeat thread writes it."""
        self.heartbeat.step = result.step

    def epoch(self, session: Session, result: EpochResult) -> None:
        """Log the epoch."""
        self.heartbeat.set(step=result.step, epoch=session.progress.epoch, stage="saving")
        session.run.append_event(
            "epoch",
            epoch=result.epoch,
            step=result.step,
            train=result.train,
            validation=result.validation,
            improved=result.improved,
            seconds=round(result.seconds, 3),
        )

    def stop(self, session: Session, reason: str) -> None:
        """Log that training is over."""
        self.heartbeat.set(stage="saving")
        session.run.append_event("stopping", reason=reason)


class SettingsHeld(Observer):
    """Reads the settings back before anything is recorded or saved of an epoch: the user's code could switch them.

    Raises ReproducibilityError when one was switched.
    """

    def trained(self, session: Session) -> None:
        """Before validation, which could switch them on again."""
        specification = session.specification
        determinism.require_applied(specification.config.reproducibility, specification.exemptions)

    def epoch(self, session: Session, result: EpochResult) -> None:  # noqa: ARG002 - an observer is given both
        """After validation."""
        self.trained(session)
