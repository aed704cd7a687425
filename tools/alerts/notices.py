"""Notices to the owner: what is still to be sent stands in the alerts' rows, and is tried again after a failure.

A row owes a notice until it was taken, so none is lost with a process; one that ends between the taking and its record
sends it once more, under the same `key`.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http.client import HTTPException
from threading import Thread
from typing import Any, NoReturn

from sqlalchemy import select

from trainwright.tools.alerts.life import life_of
from trainwright.tools.launchers.environment import inherited_environment
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import handles
from trainwright.tools.workspace.settings import Notify
from trainwright.tools.workspace.tables import RaisedAlert

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


# Ways of telling the owner of an alert: a command and a webhook of the owner's. Each ends in time, and raises nothing.
#
# No secret is logged: a way reports what went wrong in our words, never what the other side wrote.


def tell(way: str, notify: Notify, alert: Mapping[str, Any]) -> str:
    """Send one alert by one way; return what went wrong, or an empty text."""
    body = json.dumps(alert, ensure_ascii=False).encode()
    return _run(notify, body) if way == "command" else _post(notify, body)


def _run(notify: Notify, body: bytes) -> str:
    """Run the command without a shell, the alert on its standard input; what outlasts its time is killed."""
    try:
        process = subprocess.Popen(
            notify.command or [],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=inherited_environment() | _secret(notify),
            start_new_session=True,
        )
    except OSError as error:
        return f"the command could not be started: {error.strerror}"
    try:
        process.communicate(body, timeout=notify.seconds)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):  # with all that it has started
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"the command took longer than {notify.seconds:g} s"
    return f"the command ended with {process.returncode}" if process.returncode else ""


def _post(notify: Notify, body: bytes) -> str:
    """Post the alert as JSON; an answer of 2xx takes it. Nothing is followed elsewhere, for the secret goes along."""
    address = notify.webhook or os.environ.get(notify.webhook_env or "", "")
    if not address.startswith(("http://", "https://")):
        return f"the variable {notify.webhook_env} holds no http(s) address"
    secret = next(iter(_secret(notify).values()), "")
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {secret}"} if secret else {})}
    if notify.secret_env and not secret:
        return f"the variable {notify.secret_env} is not set"
    answers: list[str] = []
    request = (address, body, headers, notify.seconds)
    asking = Thread(target=lambda: answers.append(_answer(*request)), name="webhook", daemon=True)
    asking.start()
    asking.join(notify.seconds)  # the library's time-out holds for each read alone
    return answers[0] if answers else f"the webhook took longer than {notify.seconds:g} s"


def _answer(address: str, body: bytes, headers: Mapping[str, str], seconds: float) -> str:
    """Return what went wrong with one request, or an empty text."""
    try:
        request = urllib.request.Request(address, body, dict(headers), method="POST")  # noqa: S310 - checked before
        with urllib.request.build_opener(_Stay).open(request, timeout=seconds):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"the webhook answered {error.code}"
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        return f"the webhook could not be reached: {type(reason).__name__}"


def _secret(notify: Notify) -> dict[str, str]:
    """Return the variable that the settings name, where this process has it."""
    name = notify.secret_env or ""
    return {name: os.environ[name]} if name in os.environ else {}


class _Stay(urllib.request.HTTPRedirectHandler):
    """Refuses to be sent elsewhere."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> NoReturn:  # noqa: ARG002, PLR0917 - the library's
        raise urllib.error.HTTPError(req.full_url, code, msg, headers, fp)
