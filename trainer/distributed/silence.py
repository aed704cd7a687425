"""What a process other than the first is given to write to: everything is done alike in every rank, once recorded."""

from __future__ import annotations

from typing import Any

from trainwright.trainer.observers.checkpointing import Checkpointing
from trainwright.trainer.run import Event, RunDirectory
from trainwright.trainer.session import Session


class SilentRun(RunDirectory):
    """A run directory that is read as it stands and never written to; evidence is kept in memory."""

    def __init__(self, run: RunDirectory) -> None:
        super().__init__(run.path)
        self._kept: dict[str, dict[str, Any]] = {}

    def append_event(self, kind: str, **data: Any) -> Event:
        """Return the event, which nobody reads."""
        return Event(time=0.0, kind=kind, data=data)

    def write_evidence(self, name: str, value: dict[str, Any]) -> None:
        """Keep this process's own evidence."""
        self._kept[name] = value

    def evidence(self, name: str) -> dict[str, Any] | None:
        """Return this process's own evidence."""
        return self._kept.get(name)

    def metrics(self, *, writer: bool = False) -> Any:
        """Return a store that takes everything and keeps nothing; the real one to read from."""
        return _SilentStore() if writer else super().metrics()


class _SilentStore:
    def forget_after(self, step: int) -> None: ...

    def series(self, _key: str) -> list[Any]:
        return []

    def write(self, rows: Any) -> None: ...

    def close(self) -> None: ...


class SilentHeartbeat:
    """Takes the place of the heartbeat: the first process beats for all."""

    step = 0

    def set(self, **values: Any) -> None:
        """Say nothing."""

    def stage(self, stage: str) -> None:
        """Say nothing."""

    def begin_user_code(self) -> None:
        """Say nothing."""

    def end_user_code(self) -> None:
        """Say nothing."""


class SilentCheckpointing(Checkpointing):
    """Takes part in gathering the state, and leaves the writing to the first process."""

    def start(self, session: Session) -> None:
        """Note the position that was taken up."""
        progress = session.progress
        if progress.step:
            self.saved = (progress.epoch, progress.batch)

    def save(self, session: Session) -> None:
        """Hand this process's part of the state over."""
        session.state()
        self.saved = (session.progress.epoch, session.progress.batch)
