"""Follower of a workspace's runs: it looks at those that nobody asks about, and says what has changed.

Every server has one, a thread that ends when no run is alive. Of all followers of a workspace one leads: it holds a
lock, looks at the runs, requests their stop where an alert asks for it, and notifies the owner. The others learn from
the database, and take over when it dies. Where the owner is to be notified, a process leads that outlives the servers.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Thread
from typing import NamedTuple

from filelock import FileLock, Timeout
from sqlalchemy import func, select

from trainwright.tools.alerts.looking import look
from trainwright.tools.alerts.notices import is_due, is_owing, send_due
from trainwright.tools.launchers import Launch, is_living, jobs
from trainwright.tools.launchers.environment import inherited_environment
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import RaisedAlert, Run
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError, TrainwrightError
from trainwright.trainer.run import RunStatus

POLL_SECONDS = 1.0
EPOCH_SECONDS = 10.0
LAST_SECONDS = 60.0
"""How long the end waits for a notice that is being sent."""
Changed = Callable[[str, str, RaisedAlert | None], None]
LEAD_SECONDS = 0.2
"""So long a follower waits for the lead: whoever asks whether there is one holds its lock for a moment."""
log = logging.getLogger("trainwright")


class _Stage(NamedTuple):
    """How far a run was, and when that was seen."""

    project: str
    state: str
    epoch: int
    at: float


class Follower:
    """Follows the runs of one workspace until none is alive, or it is stopped."""

    def __init__(
        self,
        workspace: Workspace,
        changed: Changed = lambda _project, _run, _alert: None,
        *,
        keeps: bool = False,
    ) -> None:
        """Begin to follow at the present state.

        Args:
            changed: called with project, run and alert when an alert of the run has changed, and without an alert
                when the run's state or epoch has.
            keeps: whether it lives as long as runs do, and so leads where the owner is to be notified.
        """
        self.workspace = workspace
        self.changed = changed
        self.keeps = keeps
        self._lock = leading_lock(workspace)
        self._sending: Thread | None = None
        self._revision = _newest_revision(workspace)
        self._stages: dict[str, _Stage] = {}
        """What was last reported of the runs that are not filed as ended."""

    @property
    def leads(self) -> bool:
        """Whether this follower is the one that looks and notifies."""
        return self._lock.is_locked

    def follow(self, stop: Event) -> None:
        """Follow until no run is alive. Errors are logged, and never end it."""
        try:
            while not stop.is_set():
                try:
                    is_busy = self.step()
                except Exception:  # whatever it is, the runs go on and are looked at again
                    log.exception("following the runs failed, and is tried again")
                    is_busy = True
                if not is_busy:
                    return
                stop.wait(POLL_SECONDS)
        finally:
            self.end()

    def end(self) -> None:
        """Let another follower lead, once the notice under way is sent."""
        if self._sending is not None:
            self._sending.join(LAST_SECONDS)
        self._lock.release()

    def step(self) -> bool:
        """Look once at every run that is not filed as ended; return whether there is anything to wait for."""
        with suppress(ConfigurationError):  # the answer to the next call reports it; the last valid settings hold
            self.workspace.refreshed()
        self._lead()
        unsealed = self._unsealed()
        alive = [self._observe(run) for run in unsealed]
        self._say_what_changed({run.id for run in unsealed})
        self._notify()
        return any(alive) or (self.leads and is_owing(self.workspace))

    def _lead(self) -> None:
        """Take the lead if nobody has it; leave it to a process where the owner is to be notified."""
        if self.workspace.settings.notify is not None and not self.keeps:
            self._lock.release()
            ensure_process(self.workspace)
            return
        with suppress(Timeout):
            if not self.leads:
                self._lock.acquire(timeout=LEAD_SECONDS)

    def _notify(self) -> None:
        """Send what is due, on a thread: what the owner named may take its time."""
        if self.leads and (self._sending is None or not self._sending.is_alive()) and is_due(self.workspace):
            self._sending = Thread(target=send_due, args=(self.workspace,), name="notices", daemon=True)
            self._sending.start()

    def _unsealed(self) -> list[Run]:
        with self.workspace.snapshot() as session:
            return list(session.scalars(select(Run).where(Run.sealed.is_(False))))

    def _observe(self, run: Run) -> bool:
        """Look at one run if this follower leads; return whether the run is alive."""
        directory = self.workspace.run_directory(run.project, run.id)
        try:
            status = directory.status()
        except NotFoundError:  # its folder is being made, or was removed
            return False
        except TrainwrightError:  # the answer about the run reports it
            return directory.is_locked()
        if self.leads:
            look(self.workspace, run, status)
        self._say_how_far(run, status)
        return is_living(directory, status)

    def _say_how_far(self, run: Run, status: RunStatus) -> None:
        """Report another state at once, and further epochs now and then: many take an instant."""
        now = _Stage(run.project, status.state.value, status.epoch, time.monotonic())
        known = self._stages.setdefault(run.id, now)
        is_further = now.epoch != known.epoch and now.at - known.at > EPOCH_SECONDS
        if now.state != known.state or is_further:
            self._stages[run.id] = now
            self.changed(run.project, run.id, None)

    def _say_what_changed(self, unsealed: set[str]) -> None:
        for run_id in self._stages.keys() - unsealed:  # filed as ended meanwhile
            self.changed(self._stages.pop(run_id).project, run_id, None)
        with self.workspace.snapshot() as session:
            query = select(RaisedAlert).where(RaisedAlert.revision > self._revision)
            rows = list(session.scalars(query.order_by(RaisedAlert.revision)))
        for row in rows:
            self.changed(row.project, row.run, row)
            self._revision = row.revision


def has_unsealed(workspace: Workspace) -> bool:
    """Return whether there is a run that is not filed as ended."""
    with workspace.snapshot() as session:
        return session.scalar(select(Run.id).where(Run.sealed.is_(False)).limit(1)) is not None


def _newest_revision(workspace: Workspace) -> int:
    with workspace.snapshot() as session:
        return session.scalar(select(func.max(RaisedAlert.revision))) or 0


# Process that follows where the owner is to be notified: it outlives the servers. Its start, and the lead's lock.

FOLLOWER = "trainwright.tools.alerts.unattended"
FOLDER, LOCK = "follower", "follower.lock"
AGAIN_SECONDS = 10.0
"""So long after a start no other is made: one that ends at once must not become a storm."""


def leading_lock(workspace: Workspace) -> FileLock:
    """Return the lock that the leading follower of a workspace holds while it lives."""
    folder = workspace.path / FOLDER
    folder.mkdir(exist_ok=True)
    return FileLock(folder / LOCK, thread_local=False)


def ensure_process(workspace: Workspace) -> None:
    """Start a following process if none leads; any number of servers may ask at once."""
    jobs.ensure(
        leading_lock(workspace), FOLLOWER, alone=workspace.session(), following=_following,
        cwd=workspace.path, env=_environment(workspace, os.environ),
    )  # fmt: skip


def _following(_: object, last: Launch | None) -> Launch | None:
    return None if last is not None and time.time() - last.launched_at < AGAIN_SECONDS else Launch()


def _environment(workspace: Workspace, environment: Mapping[str, str]) -> dict[str, str]:
    """Return a worker's environment, and the variables that the owner's notification names."""
    notify = workspace.settings.notify
    named = [notify.webhook_env or "", notify.secret_env or ""] if notify is not None else []
    return inherited_environment(environment) | {name: environment[name] for name in named if name in environment}
