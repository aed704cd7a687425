"""Writing the final model's provenance into the project folder, recorded in the ledger."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pydantic import BaseModel
from sqlalchemy import select

from trainwright.tools import ledger
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.publication import digests_of, new_drafts, publish
from trainwright.tools.gates.standing import accepted_decisions, standing
from trainwright.tools.provenance.envelope import sealed
from trainwright.tools.provenance.statement import statement
from trainwright.tools.workspace.records import get_project
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.errors import ConflictError
from trainwright.trainer.run import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from trainwright.tools.gates.evidence import RunEvidence
    from trainwright.tools.workspace import Workspace

FILE = "final_model.intoto.json"


class Attested(BaseModel):
    """A statement that was written."""

    path: str
    files: int
    """How many files of the final model it names."""
    key: str | None
    """Id of the key that signed it."""


def attest(workspace: Workspace, project: str) -> Attested:
    """Write `final_model.intoto.json` for a project whose gates have all passed.

    Raises:
        NotFoundError: no such project.
        ConflictError: it has no final model, or a gate is not passed and fresh.
        StorageError: the file cannot be written.
    """
    folder = workspace.project_folder(project)
    with workspace.session() as session:
        _finished(session, workspace, project)
    subjects = sha256_of(folder, sorted((folder / "final_model").rglob("*")))  # takes too long to hold the lock
    with workspace.session() as session:
        evidence, final, finalization = _finished(session, workspace, project)
        head = session.scalars(select(LedgerEntry).order_by(LedgerEntry.sequence.desc()).limit(1)).one()
        drafts = new_drafts(folder)
        write_atomically(drafts / FILE, sealed(statement(evidence, final, subjects, head), workspace.signer))
        key = workspace.signer.public.id if workspace.signer else None
        body = {"finalization": finalization, "artifacts": digests_of(drafts), "key": key}
        ledger.append(session, project, "attestation", body)
    with workspace.session() as session:
        publish(session, project, folder)
    return Attested(path=str(folder / FILE), files=len(subjects), key=key)


def _finished(session: Session, workspace: Workspace, project: str) -> tuple[Evidence, RunEvidence, int]:
    """Return the project's evidence, its final run and the ledger sequence of its last gate, all of them fresh."""
    get_project(session, project)
    evidence = Evidence(session, workspace, project)
    where = standing(evidence)
    final, decision = evidence.final, accepted_decisions(evidence).get(Phase.FINALIZATION)
    if not where.is_finished or final is None or decision is None:
        raise ConflictError(
            f"Project {project} is in {where.phase.value}: there is no final model that all gates stand for.",
            remedy=f"project_status(project={project!r}) says what is missing; attest it when it is finished.",
        )
    return evidence, final, decision[0]


def sha256_of(folder: Path, paths: list[Path]) -> dict[str, str]:
    """Return the sha256 (hex) of every file among the paths, by its name in the folder, read in pieces."""
    found = {}
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                found[str(path.relative_to(folder))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found
