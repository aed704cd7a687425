"""Notices to the owner: what is still to be sent stands in the alerts' rows, and is tried again after a failure.

A row owes a notice until it was taken, so none is lost with a process; one that ends between the taking and its record
sends it once more, under the same `key`.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from trainwright.tools.alerts.life import life_of
from trainwright.tools.alerts.ways import tell
from trainwright.tools.workspace.handles import handles
from trainwright.tools.workspace.tables import RaisedAlert

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.settings import Notify

RETRY_SECONDS = (5, 60, 600, 3600)
"""Pauses after failed attempts; after the last of them the notice is given up."""
NO_WAY = "not sent: no way is configured any more"
log = logging.getLogger("trainwright")


def is_owing(workspace: Workspace) -> bool:
    """Return whether a notice is still to be sent, now or later."""
    with workspace.snapshot() as session:
        return session.scalar(select(RaisedAlert.run).where(RaisedAlert.owed > "").limit(1)) is not None


def is_due(workspace: Workspace) -> bool:
    """Return whether a notice is to be sent now."""
    return bool(_due(workspace))


def send_due(workspace: Workspace, should_stop: Callable[[], bool] = lambda: False) -> None:
    """Send the notices that are due, one after another, each by its ways; record how it went."""
    for row in _due(workspace):
        if should_stop():
            return
        notify = workspace.settings.notify
        ways = [way for way in row.owed.split(",") if notify is not None and way in notify.ways]
        problems = _sent(notify, ways, as_json(workspace, row)) if notify is not None else {}
        _record(workspace, row, problems, done="taken" if ways else NO_WAY)


def as_json(workspace: Workspace, row: RaisedAlert) -> dict[str, Any]:
    """Return an alert as the owner's command and webhook get it."""
    with workspace.snapshot() as session:
        named = handles(session, [row.run])
    return {
        "key": f"{row.run}/{row.id}/{row.times}/{row.severity}",
        "workspace": str(workspace.path),
        "project": row.project,
        "run": named.get(row.run, row.run),
        "run_id": row.run,
        "id": row.id,
        "state": life_of(row).value,
        "severity": row.severity,
        "message": row.message,
        "step": row.step,
        "epoch": row.epoch,
        "raised_at": datetime.fromtimestamp(row.raised_at, UTC).isoformat(timespec="seconds"),
        "document": row.document,
        "fix": row.fix,
    }


def _due(workspace: Workspace) -> list[RaisedAlert]:
    query = select(RaisedAlert).where(RaisedAlert.owed > "", RaisedAlert.due_at <= time.time())
    with workspace.snapshot() as session:
        return list(session.scalars(query.order_by(RaisedAlert.raised_at)))


def _sent(notify: Notify, ways: list[str], alert: dict[str, Any]) -> dict[str, str]:
    """Return way to problem, of the ways that did not take it."""
    return {way: problem for way in ways if (problem := tell(way, notify, alert))}


def _record(workspace: Workspace, row: RaisedAlert, problems: dict[str, str], done: str) -> None:
    """Record what is owed still; where it was raised again meanwhile, all of it is."""
    attempts = row.attempts + 1
    told = "; ".join(problems.values())
    is_over = attempts > len(RETRY_SECONDS)
    if problems:
        pause = "given up" if is_over else f"tried again in {RETRY_SECONDS[attempts - 1]} s"
        log.warning("the notice of %s on %s was not taken: %s; %s", row.id, row.run, told, pause)
    with workspace.session() as session:
        now = session.get(RaisedAlert, (row.run, row.id))
        if now is None or now.raised_at != row.raised_at:
            return
        now.owed = "" if is_over else ",".join(problems)
        now.attempts = attempts
        now.due_at = None if is_over or not problems else time.time() + RETRY_SECONDS[attempts - 1]
        now.notice = f"not taken: {told}" if problems else done
