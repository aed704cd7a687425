"""The owner's answer: who gave it and where, recorded with it. Answering twice changes nothing."""

from __future__ import annotations

import getpass
import os
import sys
from typing import TYPE_CHECKING, Literal

import psutil
from pydantic import BaseModel, ConfigDict

from trainwright.tools.owner.requests import Request, find_request, record
from trainwright.trainer.base.errors import ConflictError

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace

MOST_PROCESSES = 6


class Grantor(BaseModel):
    """Grantor: who answers, as far as a process can find out."""

    model_config = ConfigDict(frozen=True)

    way: Literal["terminal", "elicitation"]
    user: str
    terminal: str | None = None
    """The terminal that was asked; None when the answer came as an option of the command."""
    processes: list[str] = []
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
        return [f"{process.name()} ({process.pid})" for process in psutil.Process().parents()[:MOST_PROCESSES]]
    except psutil.Error:
        return []
