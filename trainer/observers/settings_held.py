"""Whether the deterministic settings still hold at each epoch's end, before anything is recorded or saved of it."""

from __future__ import annotations

from trainwright.trainer.observers.observer import EpochResult, Observer
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.session import Session


class SettingsHeld(Observer):
    """Reads the settings back. The user's steps, which run in between, could have switched them."""

    def epoch(self, session: Session, result: EpochResult) -> None:  # noqa: ARG002 - an observer is given both
        """Raise ReproducibilityError when one was switched."""
        specification = session.specification
        determinism.require_applied(specification.config.reproducibility, specification.exemptions)
