"""Follower: a process that gives one tracker what the workspace's runs record, while they train and afterwards.

It reads the runs' files and writes none of them, so a tracker that is down, slow or hanging changes nothing but what
is shown: positions are kept, and it goes on from there.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Collection
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import BaseModel, Field, ValidationError
from sqlalchemy import select

from trainwright.tools.launchers.environment import is_secret
from trainwright.tools.tracking.card import run_card, shown_files
from trainwright.tools.tracking.process import LOCK, STATE
from trainwright.tools.tracking.registry import TRACKERS
from trainwright.tools.tracking.tracker import Row, TrackedRun, Tracker, folder_of
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import Event, RunDirectory, RunState, write_atomically
from trainwright.trainer.run.tail import AlertTail

BEAT_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
GIVE_UP_SECONDS = 900.0
"""So long after all runs have ended a tracker that stays down is left, until the next start or `trainwright track`."""
LIVING = ("created", "starting", "running")
MARGIN = timedelta(minutes=10)
"""By so much earlier than one that was seen already may a run be dated that is filed after it."""
log = logging.getLogger("trainwright")


class Followed:
    """One run on its way to a tracker."""

    def __init__(self, workspace: Workspace, run: Run, folder: Path) -> None:
        self._workspace, self._id = workspace, run.id
        self.directory = workspace.run_directory(run.project, run.id)
        self._path = folder / "positions" / f"{run.id}.json"
        self.position = Position.load(self._path)
        self._shown: TrackedRun | None = None

    @cached_property
    def asked(self) -> dict[str, bool]:
        """Which trackers its configuration asks for."""
        return {name: bool(getattr(self.directory.specification().config.logging, name)) for name in TRACKERS}

    @property
    def is_living(self) -> bool:
        """Whether it may record more; one that was deleted, or whose status is damaged, does not."""
        try:
            return not self.directory.status().state.is_ended
        except TrainwrightError:
            return False

    @property
    def is_given(self) -> bool:
        """Whether all of it was given, up to its present end."""
        status = self.directory.status()
        return status.state.is_ended and self.position.finished >= max(status.attempt, 1)

    def give(self, tracker: Tracker) -> None:
        """Give what is new, and the end where it has ended. Raises whatever the tracker raises."""
        status = self.directory.status()  # before the rows: none can come after an end
        if status.state is RunState.CREATED:
            return
        if self._shown is None:
            self._shown = tracker.run(run_card(self._workspace, self._id))
        while rows := self.position.new_rows(self.directory):
            self._shown.log(rows)
            self.position.given(rows)
            self.position.save(self._path)
        events, reach = self.position.new_events(self.directory)
        if events:
            self._shown.alert(events)
        if reach != self.position.events_bytes:
            self.position.events_bytes = reach
            self.position.save(self._path)
        if status.state.is_ended:
            self._shown.finish(run_card(self._workspace, self._id), shown_files(self.directory))
            self.position.finished = max(status.attempt, 1)
            self.position.save(self._path)
            self._shown = None

    def let_go(self) -> None:
        """Forget the tracker's side: after an error it is found again."""
        self._shown = None


class Follower:
    """All runs of a workspace that ask for one tracker."""

    def __init__(self, workspace: Workspace, name: str, also: Collection[str] = ()) -> None:
        """Follow.

        Args:
            also: runs that are given whatever their configurations ask for.
        """
        self._workspace, self._name, self._also = workspace, name, frozenset(also)
        self.folder = folder_of(workspace, name)
        self._runs: dict[str, Followed] = {}
        self._done: set[str] = set()
        self._dropped: set[str] = set()
        """Whose records are damaged or were deleted: they must not keep the others waiting."""
        self._newest: datetime | None = None
        """When the newest run that was looked at was created."""
        self._tracker: Tracker | None = None
        self.error: str | None = None
        """Of the last try, without credentials; None where the tracker took all."""

    def follow(self, *, patience_seconds: float = GIVE_UP_SECONDS) -> bool:
        """Give until nothing is left; return whether all was given before the patience ended."""
        pause, tried_since = BEAT_SECONDS, time.monotonic()
        while True:
            self._look()
            if not self._runs:
                self._write_state()
                return True
            if self._give():
                pause, tried_since = BEAT_SECONDS, time.monotonic()
            else:
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            self._write_state()
            if not self._runs:
                continue
            is_living = any(run.is_living for run in self._runs.values())
            if is_living:
                tried_since = time.monotonic()
            elif self.error and time.monotonic() - tried_since > patience_seconds:
                return False
            time.sleep(pause)

    def has_work(self) -> bool:
        """Whether a run has something left to give."""
        self._look()
        return bool(self._runs)

    def _look(self) -> None:
        """Take up the runs that ask for this tracker and have not been given whole."""
        with self._workspace.snapshot() as session:
            query = select(Run).order_by(Run.created_at, Run.id)
            if self._newest is not None:
                query = query.where(Run.state.in_(LIVING) | (Run.created_at >= self._newest - MARGIN))
            rows = list(session.scalars(query))
        self._newest = rows[-1].created_at if rows else self._newest
        for row in rows:
            is_known = row.id in self._runs or row.id in self._dropped
            if is_known or (row.id in self._done and row.state not in LIVING):
                continue
            followed = Followed(self._workspace, row, self.folder)
            try:
                is_wanted = (row.id in self._also or followed.asked[self._name]) and not followed.is_given
            except (TrainwrightError, OSError):
                is_wanted = False
            if is_wanted:
                self._runs[row.id] = followed
            else:
                self._done.add(row.id)

    def _give(self) -> bool:
        """Give each run's news; return whether the tracker took them all."""
        self.error = None
        try:
            tracker = self._tracker = self._tracker or TRACKERS[self._name].make(self._workspace)
        except Exception as error:  # noqa: BLE001 - as below
            self._failed("all runs", error)
            return False
        for run_id, followed in [*self._runs.items()]:
            try:
                followed.give(tracker)
                if followed.is_given:
                    self._done.add(run_id)
                    del self._runs[run_id]
            except TrainwrightError as error:  # of the run's record: no tracker raises it
                self._dropped.add(run_id)
                del self._runs[run_id]
                log.warning("%s, run %s is not shown further: %s", self._name, run_id, error)
            except Exception as error:  # noqa: BLE001 - of a library, a server or a disk: it is tried again
                followed.let_go()
                self._failed(f"run {run_id}", error)
                return False
        return True

    def _failed(self, what: str, error: Exception) -> None:
        self.error = redacted(f"{type(error).__name__}: {error}")[:500]
        log.warning("%s, %s: %s", self._name, what, self.error)

    def _write_state(self) -> None:
        state = {"left": sorted(self._runs), "error": self.error, "at": time.time()}
        write_atomically(self.folder / STATE, json.dumps(state).encode())


def main(arguments: list[str]) -> int:
    """Follow for one tracker, unless another process does already."""
    path, name = Path(arguments[0]), arguments[1]
    os.nice(10)
    workspace = Workspace.open(path)
    follower = Follower(workspace, name)
    follower.folder.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    while True:
        try:
            with FileLock(follower.folder / LOCK).acquire(timeout=0):
                is_given = follower.follow()
        except Timeout:
            return 0
        if not is_given or not follower.has_work():  # a run that began meanwhile found the lock held
            return 0


# Position of a tracker in a run's record: what it has been given. Kept in the workspace, so it survives everybody.

MAX_ROWS = 20_000
"""Rows that are given to a tracker at once."""


class Position(BaseModel):
    """What a tracker has been given of a run. A resumed run repeats steps with the same values: they count as given."""

    steps: dict[str, int] = Field(default_factory=dict)
    """Last step by key."""
    events_bytes: int = 0
    """How far the event log was read."""
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
        """Return the first rows that have not been given, at most MAX_ROWS. Raises IntegrityError."""
        store, rows = run.metrics(), list[Row]()
        with store.reading():
            for key in store.keys():  # noqa: SIM118 - no mapping
                left = MAX_ROWS - len(rows)
                if left <= 0:
                    break
                rows += [Row(key, *point) for point in store.next_points(key, self._after(key), left)]
        return rows

    def new_events(self, run: RunDirectory) -> tuple[list[Event], int]:
        """Return the alerts and findings that have not been given, and how far the log reaches. Raises OSError."""
        tail = AlertTail(run, self.events_bytes)
        return tail.new(), tail.read_bytes

    def given(self, rows: list[Row]) -> None:
        """Advance past rows."""
        for row in rows:
            self.steps[row.key] = max(row.step, self._after(row.key))

    def _after(self, key: str) -> int:
        return self.steps.get(key, -1)


# Redaction: errors of trackers without the credentials that a library may have put into them.

_IN_ADDRESS = re.compile(r"(://)[^/\s@]*@")
_IN_QUERY = re.compile(r"(?i)((?:token|key|secret|password)=)[^&\s]+")
LEAST = 4
"""Shorter values are no credentials, and would take common words out."""


def redacted(text: str) -> str:
    """Return a text without the values of this process's secret variables, and without passwords in addresses."""
    for name, value in os.environ.items():
        if len(value) >= LEAST and is_secret(name, value):
            text = text.replace(value, "…")
    return _IN_QUERY.sub(r"\1…", _IN_ADDRESS.sub(r"\1…@", text))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
