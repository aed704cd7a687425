"""Request to the owner: it is recorded, and the answer says how it is granted."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import BaseModel
from sqlalchemy.orm import Session

from trainwright.tools.ledger import record
from trainwright.tools.ledger.events import OwnerAsked
from trainwright.tools.owner.grant import Grant
from trainwright.tools.owner.requests import Request, requests_of
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ApprovalNeededError, ConflictError

MAX_PENDING = 20
"""Pending requests of one project."""
DOCUMENT = "phases/limits.md"


class RequestView(BaseModel):
    """Request to the owner, and its state."""

    request: str
    requested: str
    state: str
    """pending, granted, denied, or lapsed (revoked by the owner's settings)."""
    how: str
    """How the owner grants it, or the consequence of the answer."""


def ask(
    session: Session, workspace: Workspace, project: str, grant: Grant, reason: str = "", *, used: Collection[str] = ()
) -> Request:
    """Return the request for this grant, recorded if it is new.

    A denied one is not requested again: the owner has answered. One that lapsed may be requested again.

    Args:
        used: requests whose grants are used up.

    Raises:
        ConflictError: too many requests of the project wait for an answer.
    """
    own = requests_of(session, workspace, project)
    same = [one for one in own if one.grant == grant and one.state != "lapsed" and one.id not in used]
    if same:
        return same[-1]
    if sum(request.state == "pending" for request in own) >= MAX_PENDING:
        raise ConflictError(
            f"{MAX_PENDING} requests of project {project!r} wait for the owner's answer; no more are accepted.",
            remedy="The workspace's owner answers them with `trainwright approve`.",
            document=DOCUMENT,
        )
    record(session, project, OwnerAsked(wish=grant.model_dump(), reason=reason))
    return requests_of(session, workspace, project)[-1]


def require_granted(workspace: Workspace, project: str, grants: list[Grant], *, again: str, reason: str = "") -> None:
    """Return if the owner has given every grant; otherwise request those that are missing, and raise.

    Args:
        again: the call to repeat after the grant.

    Raises:
        ApprovalNeededError: the owner has not granted them (yet); the requests are in the ledger.
    """
    if not grants:
        return
    with workspace.session() as session:  # committed before the error is raised
        requests = [ask(session, workspace, project, grant, reason) for grant in grants]
    missing = [request for request in requests if request.state != "granted"]
    if missing:
        raise approval_needed(missing, again)


def approval_needed(missing: list[Request], again: str) -> ApprovalNeededError:
    """Word requests that are not granted."""
    requested = "; ".join(f"{request.grant} ({request.id}, {request.state})" for request in missing)
    denied = all(request.state == "denied" for request in missing)
    remedy = "Do without: the owner has said no." if denied else f"{how_to_grant(missing)} Then {again} again."
    views = [view(request).model_dump() for request in missing]
    message = f"Only the workspace's owner may allow this: {requested}."
    return ApprovalNeededError(message, remedy=remedy, document=DOCUMENT, details={"requests": views})


def how_to_grant(requests: list[Request]) -> str:
    """Return how the owner grants these requests."""
    names = ", ".join(request.id for request in requests if request.state == "pending")
    return (
        "Tell the owner, who answers with `trainwright approve` in a terminal or adds the request's id under "
        f"`grants` in settings.yaml ({names})."
    )


def view(request: Request) -> RequestView:
    """Return a request as an agent sees it."""
    follows = {
        "pending": how_to_grant([request]),
        "granted": "It is in force: continue.",
        "denied": "The owner has said no: do without.",
        "lapsed": "The owner's settings revoked it.",
    }
    return RequestView(
        request=request.id, requested=str(request.grant), state=request.state, how=follows[request.state]
    )
