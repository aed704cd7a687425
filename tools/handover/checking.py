"""Check of a hand-over: whether the server wrote it, whether the ledger says so still, and what has happened since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.next_call import next_of
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.handover.document import DOCUMENT, FILE, HandOver, read_handover
from trainwright.tools.handover.facts import recorded_facts, standing_of
from trainwright.tools.ledger import Look, entries
from trainwright.tools.ledger.chain import digest_of
from trainwright.tools.ledger.events import HandedOver
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.query_cache import Sources
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import IntegrityError, NotFoundError
from trainwright.trainer.base.text import cut

State = Literal["fits", "stale", "forged"]
MAX_REASONS = 8
MAX_CHARACTERS = 120


class HandOverCheck(BaseModel):
    """What a hand-over is worth."""

    project: str
    state: State
    """fits: as written, and nothing has happened since; stale: as written, and the project has moved on; forged: not
    what the server wrote."""
    reasons: list[str] = []
    by: str = ""
    to: str = ""
    entry: int | None = None
    """The ledger entry with its digest."""
    remedy: str = ""


def check_handover(workspace: Workspace, project: str, path: Path | None = None) -> HandOverCheck:
    """Compare a hand-over with the ledger.

    Args:
        path: the file; default: the one in the project's folder.

    Raises:
        NotFoundError: no such project, or no such file.
    """
    file = path or workspace.project_folder(project) / FILE
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project, inspection=Look())
        try:
            data = file.read_bytes()
        except OSError as error:
            raise NotFoundError(
                f"There is no hand-over at {file}.",
                remedy=f"configure(project={project!r}, hand_over={{'by': …, 'to': …}}) writes it.",
                document=DOCUMENT,
            ) from error
        return _checked(evidence, data)


def handover_line(session: Session, workspace: Workspace, project: str, sources: Sources) -> str | None:
    """Return in a line where a project's hand-over is and what it is worth; None where none was ever written."""
    if next(iter(entries(session, project, HandedOver.name)), None) is None:
        return None
    path = workspace.project_folder(project) / FILE
    try:
        found = _checked(Evidence(session, workspace, project, inspection=Look(sources)), path.read_bytes())
    except OSError:
        return f"{path}: removed"
    shown = f"{path}, {found.by} to {found.to}: " if found.by else f"{path}: "
    return f"{shown}{found.state}{f', {found.reasons[0]}' if found.reasons else ''}"


def _checked(evidence: Evidence, data: bytes) -> HandOverCheck:
    project, session = evidence.name, evidence.session
    try:
        document = read_handover(data)
    except IntegrityError as error:
        return HandOverCheck(project=project, state="forged", reasons=[error.message], remedy=error.remedy)
    told = HandOverCheck(project=project, state="fits", by=document.words.by, to=document.words.to)
    named = _recorded(session, project, digest_bytes(data))
    forged = list(_differences(session, project, document, named))
    if forged:
        remedy = f"Believe none of it; project_status(project={project!r}) says how the project stands."
        return told.model_copy(update={"state": "forged", "reasons": forged[:MAX_REASONS], "remedy": remedy})
    stale = list(_since(evidence, document, named or 0))
    if not stale:
        return told.model_copy(update={"entry": named})
    remedy = f"project_status(project={project!r}) says how it stands now; the words may still help."
    return told.model_copy(update={"state": "stale", "entry": named, "reasons": stale[:MAX_REASONS], "remedy": remedy})


def _recorded(session: Session, project: str, digest: str) -> int | None:
    """Return the newest ledger entry that names a file with this digest as the project's hand-over."""
    found = entries(session, project, HandedOver.name)
    return next((sequence for sequence, body in reversed(found) if body.get("artifacts", {}).get(FILE) == digest), None)


def _differences(session: Session, project: str, document: HandOver, named: int | None) -> Iterator[str]:
    """Say in what the document is not one that the server wrote."""
    if document.project != project:
        yield f"it is of project {document.project!r}"
        return
    place = document.ledger
    entry = session.scalars(select(LedgerEntry).where(LedgerEntry.sequence == place.entry)).first()
    if entry is None or entry.project != project or not entry.digest == place.digest == digest_of(entry):
        yield f"ledger entry {place.entry} is not the one that it names"
        return
    derived = recorded_facts(session, project, place.entry, document.words.to)
    mine, theirs = (facts.model_dump(mode="json") for facts in (document.facts, derived))
    yield from _unequal("facts", mine, theirs)
    if named is None:
        yield "no ledger entry has this file's digest: its words, its standing or its facts were edited"


def _unequal(name: str, mine: Any, theirs: Any) -> Iterator[str]:
    """Name the places in which two plain values differ."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in sorted({*mine, *theirs}):
            yield from _unequal(f"{name}.{key}", mine.get(key), theirs.get(key))
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        for place, pair in enumerate(zip(mine, theirs, strict=True)):
            yield from _unequal(f"{name}[{place}]", *pair)
    elif mine != theirs:
        yield f"{name} is {cut(repr(mine), MAX_CHARACTERS)} where the ledger has {cut(repr(theirs), MAX_CHARACTERS)}"


def _since(evidence: Evidence, document: HandOver, named: int) -> Iterator[str]:
    """Say what has happened since a hand-over that the server wrote."""
    query = select(LedgerEntry.sequence, LedgerEntry.kind).where(LedgerEntry.project == evidence.name)
    later = [tuple(one) for one in evidence.session.execute(query.where(LedgerEntry.sequence > named))]
    again = [sequence for sequence, kind in later if kind == HandedOver.name]
    if again:
        yield f"it was handed over again by ledger entry {again[-1]}"
    kinds = Counter(kind for _, kind in later if kind != HandedOver.name)
    if kinds:
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        yield f"since then in the ledger: {counted}"
        return
    now = standing_of(phase_status_of(evidence), next_of(evidence))
    for phase, status in now.gates.items():
        if document.standing.gates.get(phase) != status:
            yield f"the {phase} gate is {status}, and was {document.standing.gates.get(phase)}"
