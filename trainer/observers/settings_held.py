"""Whether the deterministic settings hold still once an epoch was trained, and again once it was validated."""

from __future__ import annotations

from trainwright.trainer.observers.observer import EpochResult, Observer
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.session import Session


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
