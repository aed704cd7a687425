"""Tail of the event log of a run: alerts and findings as they are appended, each read once."""

from __future__ import annotations

from pydantic import ValidationError

from trainwright.trainer.run.directory import EVENTS, RunDirectory
from trainwright.trainer.run.status import Event

ALERTS = frozenset({"alert", "alert_cleared", "finding"})
"""Kinds that the monitor appends, and trackers show."""


class AlertTail:
    """Reads what was appended since the last look; a line that is not whole yet waits for its end."""

    def __init__(self, run: RunDirectory, read_bytes: int = 0) -> None:
        self._path = run.path / EVENTS
        self.read_bytes = read_bytes
        """How far the log was read."""

    def new(self) -> list[Event]:
        """Return the events of ALERTS that are new; damaged lines are passed over. Raises OSError."""
        if not self._path.exists() or self._path.stat().st_size <= self.read_bytes:
            return []
        with self._path.open("rb") as file:
            file.seek(self.read_bytes)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self.read_bytes += len(whole)
        events = [_event(line) for line in whole.splitlines()]
        return [event for event in events if event is not None and event.kind in ALERTS]


def _event(line: bytes) -> Event | None:
    try:
        return Event.model_validate_json(line)
    except ValidationError:
        return None
