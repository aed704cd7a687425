"""Position of a tracker in a run's record: what it has been given. Kept in the workspace, so it survives everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, Field, ValidationError

from trainwright.tools.tracking.tracker import Row
from trainwright.trainer.run import write_atomically
from trainwright.trainer.run.tail import ALERTS, EventTail

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.trainer.run import Event, RunDirectory

MOST_ROWS = 20_000
"""Rows that are given to a tracker at once."""


class Position(BaseModel):
    """What a tracker has been given of a run. A resumed run repeats steps with the same values: they count as given."""

    steps: dict[str, int] = Field(default_factory=dict)
    """Last step by key."""
    events_bytes: int = 0
    """How far the event log was read."""
    histograms_bytes: int = 0
    """How far the histograms were read."""
    finished: int = 0
    """Attempt of which the end was given."""

    @classmethod
    def load(cls, path: Path) -> Position:
        """Read a position; one that is missing or damaged is the beginning, for trackers store nothing twice."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            return cls()

    def save(self, path: Path) -> None:
        """Write it. Raises StorageError, OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self.model_dump_json().encode())

    def new_rows(self, run: RunDirectory) -> list[Row]:
        """Return the first rows that have not been given, at most MOST_ROWS. Raises IntegrityError."""
        store, rows = run.metrics(), list[Row]()
        with store.reading():
            for key in store.keys():  # noqa: SIM118 - no mapping
                left = MOST_ROWS - len(rows)
                if left <= 0:
                    break
                rows += [Row(key, *point) for point in store.next_points(key, self._after(key), left)]
        return rows

    def new_events(self, run: RunDirectory) -> tuple[list[Event], int]:
        """Return the alerts and findings that have not been given, and how far the log reaches. Raises OSError."""
        tail = EventTail(run, ALERTS, self.events_bytes)
        return tail.new(), tail.read_bytes

    def given(self, rows: list[Row]) -> None:
        """Advance past rows."""
        for row in rows:
            self.steps[row.key] = max(row.step, self._after(row.key))

    def _after(self, key: str) -> int:
        return self.steps.get(key, -1)
