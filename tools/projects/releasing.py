"""Working on a finished project: asked for first, and then the beginning of its next release (PHASE-11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from trainwright.tools.answers import NextCall
from trainwright.tools.ledger import record
from trainwright.tools.ledger.events import ReleaseBegun
from trainwright.trainer.base.errors import ConflictError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.gates.phase_status import Standing


def refuse_to_change(project: str, where: Standing, asked: dict[str, Any]) -> NoReturn:
    """Refuse a change of a finished project, with the call that makes the same change in its next release.

    Args:
        asked: the arguments of the refused call.

    Raises:
        ConflictError: always.
    """
    kept = {name: value for name, value in asked.items() if value}
    why = f"work on: every gate anew, and {where.release} stays"
    call = NextCall(tool="configure", arguments={"project": project, **kept, "begin_release": True}, why=why)
    raise ConflictError(
        f"Project {project} is {where.finished_text}. A change of its configuration would begin its next release.",
        remedy=f"{call} begins it; the finished release stays as it is. Nothing was changed.",
        document="phases/WORKFLOW.md",
        details={"next": call.model_dump(mode="json")},
    )


def begin(session: Session, project: str, where: Standing, reason: str) -> int | None:
    """Record that the next release is begun; return its number, or None where the project is worked on already."""
    if where.release is None:
        return None
    number = where.release.number + 1
    begun = ReleaseBegun(release=number, after=where.release.sequence, reason=reason, since=where.remarks)
    record(session, project, begun)
    return number
