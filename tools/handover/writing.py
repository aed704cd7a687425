"""Writing of a hand-over: built from the ledger, recorded there by its digest, and moved into the project's folder."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel
from sqlalchemy import select

from trainwright.tools import ledger
from trainwright.tools.gates.artifacts import digests_of, new_drafts, publish
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.next_call import next_of
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.handover.document import FILE, HandOver, LedgerPlace, Words
from trainwright.tools.handover.facts import recorded_facts, standing_of
from trainwright.tools.ledger.events import HandedOver
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.workspace.records import get_project
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.run import write_generated

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace


class HandOverView(BaseModel):
    """A hand-over that was written."""

    path: str
    by: str
    to: str
    entry: int
    """The ledger entry that has its digest."""


def hand_over(workspace: Workspace, project: str, words: Words) -> HandOverView:
    """Write handover.yaml for the one who takes a project over, and record its digest.

    Raises:
        NotFoundError: no such project.
        ConfigurationError: the file would hold a secret; nothing was written.
        IntegrityError: the workspace was edited by hand.
        StorageError: the file cannot be written.
    """
    refresh_project(workspace, project)
    folder = workspace.project_folder(project)
    with workspace.session() as session:
        get_project(session, project)
        document = _document(session, workspace, project, words)
        drafts = new_drafts(session, folder)
        write_generated(drafts, {FILE: document.as_yaml()})
        event = HandedOver(by=words.by, to=words.to, after=document.ledger.entry, artifacts=digests_of(drafts))
        entry = ledger.record(session, project, event).sequence
    with workspace.session() as session:
        publish(session, project, folder)
    return HandOverView(path=str(folder / FILE), by=words.by, to=words.to, entry=entry)


def _document(session: Session, workspace: Workspace, project: str, words: Words) -> HandOver:
    evidence = Evidence(session, workspace, project)
    newest = select(LedgerEntry).where(LedgerEntry.project == project).order_by(LedgerEntry.sequence.desc()).limit(1)
    last = session.scalars(newest).one()
    return HandOver(
        project=project,
        written=datetime.now(UTC),
        ledger=LedgerPlace(entry=last.sequence, digest=last.digest),
        facts=recorded_facts(session, project, last.sequence, words.to),
        standing=standing_of(phase_status_of(evidence), next_of(evidence)),
        words=words,
    )
