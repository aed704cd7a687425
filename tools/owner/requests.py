"""Requests and their answers, as the ledger records them; they are stored nowhere else.

A request's id holds its place in the ledger and the first digits of its entry's digest, so that it names this grant for
this project in this workspace.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import psutil
from pydantic import Field, ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools import ledger
from trainwright.tools.ledger.events import OwnerAnswered
from trainwright.tools.owner.grant import Grant
from trainwright.tools.owner.grants import DECISION, SETTINGS, by_whom, holds, operations
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.errors import ConflictError, NotFoundError
from trainwright.trainer.base.records import Frozen

REQUEST = "owner_request"


class Request(Frozen):
    """Request for a grant, and the owner's answer if there is one."""

    id: str
    project: str
    grant: Grant
    reason: str
    asked_at: str
    state: Literal["pending", "granted", "denied", "lapsed"] = "pending"
    """lapsed: granted, and revoked since by the owner's settings."""
    decided_at: str | None = None
    by: dict[str, Any] | None = None
    """Way, user, terminal and processes of the decider; for a limit also the owner's setting at that time (`above`)."""

    def __str__(self) -> str:
        """In a line: `r41-3fa9c2: limit trials = 500: granted by ada at a terminal`."""
        return f"{self.id}: {self.grant}: {self.state}{by_whom(self.by or {})}"


def requests_of(session: Session, workspace: Workspace, project: str | None = None) -> list[Request]:
    """Return the requests of one project, or of all, in order; grants in settings.yaml are recorded when first seen."""
    read = partial(_read, session, project)
    known = read() if project is None else workspace.kept.answer(session, project, "requests", lambda _: read())
    found = {request.id: request for request in known}
    named = [found[name] for name in workspace.settings.grants if name in found]
    new = [request for request in named if request.state == "pending"]
    for request in new:
        record(session, workspace, request, granted=True, by={"way": SETTINGS})
    if new:
        found = {request.id: request for request in _read(session, project)}
    return [_held_to_settings(request, workspace) for request in found.values()]


def record_settings_grants(workspace: Workspace) -> Workspace:
    """Record the grants newly added to settings.yaml, and return the workspace."""
    if workspace.settings.grants:
        with workspace.session() as session:
            requests_of(session, workspace)
    return workspace


def find_request(session: Session, workspace: Workspace, name: str) -> Request:
    """Return a request by its id. Raises NotFoundError."""
    found = {request.id: request for request in requests_of(session, workspace)}
    if name not in found:
        pending = ", ".join(request.id for request in found.values() if request.state == "pending") or "none"
        raise NotFoundError(f"There is no request {name[:40]!r}.", remedy=f"`trainwright approve` lists: {pending}.")
    return found[name]


def granted(session: Session, workspace: Workspace, project: str) -> list[Request]:
    """Return the granted requests of the project that are in force."""
    return [request for request in requests_of(session, workspace, project) if request.state == "granted"]


def exempted_operations(session: Session, workspace: Workspace, project: str) -> list[str]:
    """Return the non-deterministic operations that the owner allows in the project's runs."""
    return operations(request.grant for request in granted(session, workspace, project))


def record(session: Session, workspace: Workspace, request: Request, *, granted: bool, by: dict[str, Any]) -> None:
    """Write a decision into the ledger."""
    grant = request.grant
    if grant.kind == "limit":
        by = {**by, "above": getattr(workspace.settings.limits, grant.name)}
    answer = OwnerAnswered(request=request.id, wish=grant.model_dump(), granted=granted, by=by)
    ledger.record(session, request.project, answer)


def request_id(entry: LedgerEntry) -> str:
    """Return the id of the request that an entry records: its place, and the start of its digest."""
    return f"r{entry.sequence}-{entry.digest.rpartition(':')[2][:6]}"


def _read(session: Session, project: str | None) -> list[Request]:
    query = select(LedgerEntry).where(LedgerEntry.kind.in_((REQUEST, DECISION))).order_by(LedgerEntry.sequence)
    found: dict[str, Request] = {}
    for entry in session.scalars(query if project is None else query.where(LedgerEntry.project == project)):
        with suppress(ValueError, KeyError, TypeError, ValidationError):  # damaged: `verify` names it
            _take(found, entry, json.loads(entry.body))
    return list(found.values())


def _take(found: dict[str, Request], entry: LedgerEntry, body: dict[str, Any]) -> None:
    if entry.kind == REQUEST:
        name = request_id(entry)
        grant = Grant.model_validate(body["wish"])
        found[name] = Request(
            id=name, project=str(entry.project), grant=grant, reason=body["reason"], asked_at=entry.time
        )
        return
    request = found[body["request"]]
    same = request.project == entry.project and body["wish"] == request.grant.model_dump()
    if same and request.state == "pending":  # the first decision holds
        state = "granted" if body["granted"] is True else "denied"
        found[request.id] = request.model_copy(update={"state": state, "decided_at": entry.time, "by": body["by"]})


def _held_to_settings(request: Request, workspace: Workspace) -> Request:
    """Let a grant lapse that was given in a way the owner does not accept now, or above a limit lowered since."""
    body = {"request": request.id, "granted": request.state == "granted", "by": request.by or {}}
    if request.state != "granted" or holds(body, request.grant, workspace.settings):
        return request
    return request.model_copy(update={"state": "lapsed"})


# The owner's answer: who gave it and where, recorded with it. Answering twice changes nothing.

MAX_PROCESSES = 6


class Grantor(Frozen):
    """Grantor: who answers, as far as a process can find out."""

    way: Literal["terminal", "elicitation"]
    user: str
    terminal: str | None = None
    """The terminal that was asked; None when the answer came as an option of the command."""
    processes: list[str] = Field(default_factory=list)
    """The processes that the answering one was started by, nearest first."""

    @classmethod
    def here(cls, way: Literal["terminal", "elicitation"], *, asked: bool) -> Grantor:
        """Describe this process.

        Args:
            asked: whether a question on standard input was answered.
        """
        terminal = os.ttyname(sys.stdin.fileno()) if asked else None
        return cls(way=way, user=getpass.getuser(), terminal=terminal, processes=_ancestors())


def decide(workspace: Workspace, request_id: str, *, granted: bool, by: Grantor) -> Request:
    """Record the owner's answer and return the request; one that was answered before is unchanged.

    Raises:
        NotFoundError: there is no such request.
        ConflictError: the owner's settings do not accept this way of answering.
    """
    if by.way not in workspace.settings.approvals:
        raise ConflictError(
            f"The owner's settings do not accept answers by {by.way}.",
            remedy=f"Add {request_id!r} under `grants` in settings.yaml, or {by.way!r} under `approvals`.",
        )
    with workspace.session() as session:
        request = find_request(session, workspace, request_id)
        if request.state == "pending":
            record(session, workspace, request, granted=granted, by=by.model_dump())
        return find_request(session, workspace, request_id)


def _ancestors() -> list[str]:
    try:
        return [f"{process.name()} ({process.pid})" for process in psutil.Process().parents()[:MAX_PROCESSES]]
    except psutil.Error:
        return []
