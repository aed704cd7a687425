"""Trackers by the key of `logging` that switches them on, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.trainer.engine.trackers.tensorboard import TensorBoard
from trainwright.trainer.engine.trackers.tracker import Tracker, Trackers

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainwright.trainer.engine.session import Session

TRACKERS: dict[str, Callable[[], Tracker]] = {"tensorboard": TensorBoard}


def trackers_of(session: Session) -> Trackers:
    """Start the trackers that the configuration asks for, in the process that writes for all."""
    asked = session.config.logging.model_dump()
    chosen = {name: make() for name, make in TRACKERS.items() if session.strategy.is_first and asked[name]}
    return Trackers(session.run, session.config, chosen)


__all__ = ["TRACKERS", "Tracker", "Trackers", "trackers_of"]
