"""Asking the owner: the request is recorded, and the answer says how it is granted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from trainwright.tools.ledger import record
from trainwright.tools.ledger.events import OwnerAsked
from trainwright.tools.owner.requests import Request, requests_of
from trainwright.trainer.base.errors import ApprovalNeededError, ConflictError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.owner.grant import Wish
    from trainwright.tools.workspace import Workspace

MOST_PENDING = 20
"""Requests of one project that wait for an answer."""
DOCUMENT = "phases/limits.md"


class RequestView(BaseModel):
    """What was asked of the owner, and where it stands."""

    request: str
    wish: str
    state: str
    """pending, granted, denied, or lapsed (the owner's settings took it back)."""
    how: str
    """How the owner grants it, or what follows from the answer."""


def ask(session: Session, workspace: Workspace, project: str, wish: Wish, reason: str = "") -> Request:
    """Return the request for this wish, recorded if it was not asked before.

    A denied wish is not asked again: the owner has answered. One that lapsed may be asked anew.

    Raises:
        ConflictError: too many requests of the project wait for an answer.
    """
    own = requests_of(session, workspace, project)
    same = [request for request in own if request.wish == wish and request.state != "lapsed"]
    if same:
        return same[-1]
    if sum(request.state == "pending" for request in own) >= MOST_PENDING:
        raise ConflictError(
            f"{MOST_PENDING} requests of project {project!r} wait for the owner's answer; no more are taken.",
            remedy="The workspace's owner answers them with `trainwright approve`.",
            document=DOCUMENT,
        )
    record(session, project, OwnerAsked(wish=wish.model_dump(), reason=reason))
    return requests_of(session, workspace, project)[-1]


def require_granted(workspace: Workspace, project: str, wishes: list[Wish], *, again: str, reason: str = "") -> None:
    """Go on when the owner has granted every wish; otherwise ask for those that are missing, and raise.

    Args:
        again: the call to repeat after the grant.

    Raises:
        ApprovalNeededError: the owner has not granted them (yet); the requests stand in the ledger.
    """
    if not wishes:
        return
    with workspace.session() as session:  # committed before the error is raised
        requests = [ask(session, workspace, project, wish, reason) for wish in wishes]
    missing = [request for request in requests if request.state != "granted"]
    if missing:
        raise approval_needed(missing, again)


def approval_needed(missing: list[Request], again: str) -> ApprovalNeededError:
    """Word requests that are not granted."""
    told = "; ".join(f"{request.wish} ({request.id}, {request.state})" for request in missing)
    denied = all(request.state == "denied" for request in missing)
    remedy = "Do without: the owner has said no." if denied else f"{how_to_grant(missing)} Then {again} again."
    views = [view(request).model_dump() for request in missing]
    message = f"Only the workspace's owner may allow this: {told}."
    return ApprovalNeededError(message, remedy=remedy, document=DOCUMENT, details={"requests": views})


def how_to_grant(requests: list[Request]) -> str:
    """Return how the owner grants these requests."""
    names = ", ".join(request.id for request in requests if request.state == "pending")
    return (
        "Tell the owner, who answers with `trainwright approve` in a terminal or writes the request's id under "
        f"`grants` in settings.yaml ({names})."
    )


def view(request: Request) -> RequestView:
    """Return a request as an agent sees it."""
    follows = {
        "pending": how_to_grant([request]),
        "granted": "It holds: go on.",
        "denied": "The owner has said no: do without.",
        "lapsed": "The owner's settings took it back.",
    }
    return RequestView(request=request.id, wish=str(request.wish), state=request.state, how=follows[request.state])
