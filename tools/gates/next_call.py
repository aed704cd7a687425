"""What to do now in a project: the first failing check of the present phase knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.keeper import evaluate
from trainwright.tools.gates.standing import standing

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace


def next_call(session: Session, workspace: Workspace, project: str) -> NextCall | None:
    """Return the call that brings the project on, or None when all gates have passed."""
    evidence = Evidence(session, workspace, project)
    where = standing(evidence)
    if where.is_finished:
        return None
    blocking = evaluate(evidence, where.phase).blocking
    if blocking:
        return blocking[0].next
    return evidence.call("pass_gate", "every check of the phase passes", phase=where.phase.value)
