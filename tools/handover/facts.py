"""Facts of a hand-over, derived from the ledger's entries up to one of them: always the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools import ledger
from trainwright.tools.answers import NextCall
from trainwright.tools.gates.artifacts import NAMING, digests_of, new_drafts, publish
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.next_call import next_of
from trainwright.tools.gates.phase_status import PhaseStatus, phase_status_of
from trainwright.tools.handover.document import (
    FILE,
    MATERIAL,
    Facts,
    GateFact,
    HandOver,
    LedgerPlace,
    RunFact,
    Standing,
    Words,
)
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.ledger.events import HandedOver
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.run import write_generated

MAX_RUNS = 20


def recorded_facts(session: Session, project: str, entry: int, to: str) -> Facts:
    """Return what the project's entries up to this one say.

    Args:
        to: the role that takes over, which decides on the files.
    """
    facts = ProjectFacts(session, project, before=entry + 1)
    created = next((body for _, body in facts.entries.get("project_created", [])), {})
    number = max(facts.configurations, default=0)
    return Facts(
        intent=str(created.get("intent", "")),
        goal=dict(created.get("goal", {})),
        configuration=number,
        configuration_digest=facts.configurations[number].digest if number else "",
        gates=_gates(facts),
        runs=list(_runs(facts))[-MAX_RUNS:],
        studies={str(body.get("study_id")): str(body.get("state")) for _, body in facts.entries.get("study", [])},
        owner=list(_owner(facts)),
        files=_files(facts, to),
    )


def standing_of(where: PhaseStatus, following: NextCall | None) -> Standing:
    """Return how a project stands by its phase status."""
    return Standing(
        phase=where.phase.value,
        finished=where.is_finished,
        gates={
            gate.phase.value: f"stale: {'; '.join(gate.reasons[:3])}" if gate.reasons else gate.status
            for gate in where.gates
        },
        next=following.model_dump(mode="json", exclude_none=True) if following else None,
    )


def _gates(facts: ProjectFacts) -> list[GateFact]:
    newest = {str(body.get("phase")): (sequence, body) for sequence, body in facts.entries.get("gate", [])}
    return [
        GateFact(phase=phase, outcome=str(body.get("outcome")), entry=sequence)
        for phase, (sequence, body) in newest.items()
    ]


def _runs(facts: ProjectFacts) -> Iterator[RunFact]:
    started = {str(body.get("run_id")): sequence for sequence, body in facts.entries.get("run_started", [])}
    sealed = {str(body.get("run_id")): sequence for sequence, body in facts.entries.get("run_sealed", [])}
    for run_id, start in facts.started.items():
        seal, evaluation = facts.seals.get(run_id), facts.evaluations.get(run_id)
        yield RunFact(
            id=run_id,
            kind=start.kind,
            state=seal.state if seal else "under way",
            entry=sealed[run_id] if seal else started[run_id],
            certified=evaluation.certified() if evaluation else {},
        )


def _owner(facts: ProjectFacts) -> Iterator[str]:
    answers = [body for _, body in facts.entries.get("owner_decision", [])]
    for sequence, body in facts.entries.get("owner_request", []):
        asked = body.get("wish")
        values: dict[str, Any] = asked if isinstance(asked, dict) else {}
        answer = next((one for one in reversed(answers) if one.get("wish") == asked), None)
        state = "open" if answer is None else "granted" if answer.get("granted") else "denied"
        named = " ".join(str(value) for value in values.values() if value is not None)
        yield f"entry {sequence}: {named} ({state})"


def _files(facts: ProjectFacts, to: str) -> dict[str, str]:
    """Return the newest digests of the recorded files that a role works from."""
    bodies = sorted((entry for kind in NAMING for entry in facts.entries.get(kind, [])), key=lambda entry: entry[0])
    newest = {name: digest for _, body in bodies for name, digest in (body.get("artifacts") or {}).items()}
    wanted = MATERIAL.get(to, ())
    return {name: newest[name] for name in sorted(newest) if any(fnmatchcase(name, one) for one in wanted)}


# Writing of a hand-over: built from the ledger, recorded there by its digest, and moved into the project's folder.


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
