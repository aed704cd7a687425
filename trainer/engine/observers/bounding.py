"""Stopping of a run after an epoch that its order names, so that it can be resumed as if it had never stopped."""

from __future__ import annotations

from trainwright.trainer.engine.observers.observer import EpochResult, Observer
from trainwright.trainer.engine.session import Session
from trainwright.trainer.run.status import RUNG


class Bounding(Observer):
    """Asks for an orderly end when the epoch has ended and its checkpoint is written; it comes after all others."""

    def __init__(self, until_epoch: int) -> None:
        self.until_epoch = until_epoch

    def start(self, session: Session) -> None:
        """Go no further where an earlier attempt got there, and was killed before it said so."""
        self._look(session)

    def epoch(self, session: Session, result: EpochResult) -> None:  # noqa: ARG002 - the moment's form
        """Look at the position; a run that is over ends for its own reason."""
        self._look(session)

    def _look(self, session: Session) -> None:
        progress = session.progress
        if progress.stop_reason is None and progress.epoch >= self.until_epoch:
            session.stop.ask(RUNG)
