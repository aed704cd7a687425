"""Writing and checking the chain: each entry's digest covers its content and the digest before it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from trainwright.tools.ledger.jsonl_mirror import announce, copy_forward, hashed_content
from trainwright.tools.workspace.query_cache import AFTER_COMMIT, BEFORE_COMMIT, OPENED_BY
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.canonical import canonical_json, digest_json

GENESIS = "genesis"


def append(session: Session, project: str | None, kind: str, body: dict[str, Any]) -> LedgerEntry:
    """Add an entry within the caller's transaction (which holds the write lock) and return it.

    Kinds: `project_created`, `config_version`, `run_started`, `run_sealed`, `gate`, `release_begun`, `study`, …
    Raises StorageError in a workspace that cannot be written.
    """
    workspace = session.info.get(OPENED_BY)
    if workspace is not None:
        workspace.require_writable()
    last = session.scalars(select(LedgerEntry).order_by(LedgerEntry.sequence.desc()).limit(1)).first()
    entry = LedgerEntry(
        sequence=last.sequence + 1 if last else 1,
        time=datetime.now(UTC).isoformat(timespec="microseconds"),
        project=project,
        kind=kind,
        body=canonical_json(body),
        previous=last.digest if last else GENESIS,
    )
    entry.digest = digest_of(entry)
    signer = workspace.signer if workspace else None
    entry.signature = signer.sign(entry.digest) if signer else None
    session.add(entry)
    session.flush()
    announced = partial(announce, project=project, sequence=entry.sequence)
    session.info.setdefault(BEFORE_COMMIT, {}).setdefault((announce, project), announced)
    session.info.setdefault(AFTER_COMMIT, {})[copy_forward, project] = partial(copy_forward, project=project)
    return entry


def entries(
    session: Session, project: str | None = None, kind: str | None = None, *, before: int | None = None
) -> list[tuple[int, dict[str, Any]]]:
    """Return (sequence, body) of the entries in order: of one project, of one kind, before a sequence, if given."""
    query = select(LedgerEntry.sequence, LedgerEntry.body).order_by(LedgerEntry.sequence)
    if before is not None:
        query = query.where(LedgerEntry.sequence < before)
    if project is not None:
        query = query.where(LedgerEntry.project == project)
    if kind is not None:
        query = query.where(LedgerEntry.kind == kind)
    return [(sequence, json.loads(body)) for sequence, body in session.execute(query)]


def broken_links(session: Session) -> list[str]:
    """Re-derive the whole chain and return a sentence for every entry that does not fit; none means intact.

    A shortened tail cannot be seen from the chain alone: `verify` compares it with the JSONL mirrors and the tables.
    """
    problems, previous, expected = [], GENESIS, 1
    highest = session.scalar(select(func.max(LedgerEntry.sequence))) or 0
    for entry in session.scalars(select(LedgerEntry).order_by(LedgerEntry.sequence)):
        if entry.sequence != expected:
            problems.append(f"ledger entry {expected} is missing (of {highest})")
        if entry.previous != previous:
            problems.append(f"ledger entry {entry.sequence} does not continue the entry before it")
        if entry.digest != digest_of(entry):
            problems.append(f"ledger entry {entry.sequence} ({entry.kind}) was changed after it was written")
        previous, expected = entry.digest, entry.sequence + 1
    return problems


def digest_of(entry: LedgerEntry) -> str:
    """Compute an entry's digest from its content."""
    return digest_json(hashed_content(entry))
