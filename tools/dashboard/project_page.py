"""Page of one project: phase, gates, checks, runs, alerts, studies, data versions, limits, and its ledger by pages."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.dashboard.overview import goal_text
from trainwright.tools.ledger import Look
from trainwright.tools.projects import read_status
from trainwright.tools.versions import data_versions
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import run_handles
from trainwright.tools.workspace.records import get_project
from trainwright.tools.workspace.tables import LedgerEntry, Run, Study
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.text import one_line

MAX_RUNS = 300
PAGE_ENTRIES = 50
MAX_CHARACTERS = 300
MAX_OF_A_VALUE = 120
DIGEST = re.compile(r"\w+:[0-9a-f]{32}|[0-9a-f]{40}")


class RunRow(BaseModel):
    """One run of the project, as filed."""

    run_id: str
    handle: str
    kind: str
    label: str | None
    state: str
    study: str | None
    seed: int
    best: float | None
    """Of the goal's metric, as its summary reports it."""
    created_at: str
    ended_at: str | None


class StudyRow(BaseModel):
    """One search of the project."""

    study_id: str
    state: str
    metric: str
    trials: int
    created_at: str


class DataRow(BaseModel):
    """One version of the project's data."""

    name: str
    rows: int
    splits: dict[str, int]
    fingerprint: str
    source: str | None
    licence: str | None
    seen_at: str
    run_id: str


class LedgerLine(BaseModel):
    """One entry of the ledger."""

    sequence: int
    time: str
    kind: str
    text: str
    """Its body, cut."""
    digest: str
    signed: bool


class LedgerPage(BaseModel):
    """Entries, the newest first."""

    entries: list[LedgerLine]
    before: int | None
    """Sequence from which on older ones follow; None where there are none."""


class ProjectPage(BaseModel):
    """Everything about one project."""

    status: dict[str, Any]
    """As project_status gives it in full; where that cannot be derived, intent and goal alone."""
    problem: str | None
    """Why it cannot be derived: a damaged or missing record."""
    runs: list[RunRow]
    """The newest first."""
    left_out: int
    studies: list[StudyRow]
    data: list[DataRow]


def project_page(workspace: Workspace, project: str) -> ProjectPage:
    """Return the page of a project. Raises NotFoundError, IntegrityError."""
    with workspace.snapshot() as session:
        row = get_project(session, project)
        goal = row.goal["metric"]
        query = select(Run).where(Run.project == project).order_by(Run.created_at.desc(), Run.id.desc())
        rows = list(session.scalars(query))
        names = {long: handle for handle, long in run_handles(session).items()}
        studies = list(session.scalars(select(Study).where(Study.project == project).order_by(Study.created_at.desc())))
    status: dict[str, Any] = {"intent": row.intent, "goal": goal_text(row.goal)}
    data: list[DataRow] = []
    problem = None
    try:
        status = read_status(workspace, project).shown(full=True)
        with workspace.snapshot() as session:
            data = _data(session, workspace, project)
    except TrainwrightError as error:
        problem = f"{error.message} {error.remedy}"
    return ProjectPage(
        status=status,
        problem=problem,
        runs=[_run(row, names, goal) for row in rows[:MAX_RUNS]],
        left_out=max(0, len(rows) - MAX_RUNS),
        studies=[_study(row) for row in studies],
        data=data,
    )


def ledger_page(workspace: Workspace, project: str, before: int | None = None) -> LedgerPage:
    """Return a page of the project's ledger entries, the newest first. Raises NotFoundError.

    Args:
        before: only entries with lower numbers.
    """
    query = select(LedgerEntry).where(LedgerEntry.project == project).order_by(LedgerEntry.sequence.desc())
    if before is not None:
        query = query.where(LedgerEntry.sequence < before)
    with workspace.snapshot() as session:
        get_project(session, project)
        found = list(session.scalars(query.limit(PAGE_ENTRIES + 1)))
    shown = found[:PAGE_ENTRIES]
    return LedgerPage(
        entries=[
            LedgerLine(
                sequence=entry.sequence,
                time=entry.time,
                kind=entry.kind,
                text=_body_text(entry.body),
                digest=entry.digest,
                signed=entry.signature is not None,
            )
            for entry in shown
        ],
        before=shown[-1].sequence if len(found) > PAGE_ENTRIES else None,
    )


def _run(row: Run, names: dict[str, str], metric: str) -> RunRow:
    best = ((row.summary or {}).get("best") or {}).get("metrics", {}).get(metric)
    return RunRow(
        run_id=row.id,
        handle=names.get(row.id, row.id),
        kind=row.kind,
        label=row.label,
        state=row.state,
        study=row.study,
        seed=row.seed,
        best=float(best) if isinstance(best, int | float) else None,
        created_at=row.created_at.isoformat(),
        ended_at=row.ended_at.isoformat() if row.ended_at else None,
    )


def _study(row: Study) -> StudyRow:
    return StudyRow(
        study_id=row.id,
        state=row.state,
        metric=str(row.objective["metric"]),
        trials=int(row.search["trials"]),
        created_at=row.created_at.isoformat(),
    )


def _data(session: Session, workspace: Workspace, project: str) -> list[DataRow]:
    facts = Look().facts(session, workspace, project, None)
    return [
        DataRow(
            name=version.name,
            rows=version.rows,
            splits={name: split.size for name, split in version.splits.items()},
            fingerprint=version.fingerprint,
            source=version.source,
            licence=version.licence,
            seen_at=version.seen_at,
            run_id=version.run_id,
        )
        for version in data_versions(workspace, facts, project)
    ]


def _body_text(text: str) -> str:
    """Return the plain values of an entry in words; digests and tables are counted, not shown."""
    try:
        body = json.loads(text)
    except ValueError:
        return "damaged: `trainwright verify` names it"
    parts = [f"{key.replace('_', ' ')} {_value_text(value)}" for key, value in body.items() if _value_text(value)]
    return one_line("; ".join(parts), MAX_CHARACTERS)


def _value_text(value: object) -> str:
    if isinstance(value, dict | list):
        return f"({len(value)})" if value else ""
    text = "" if value is None else str(value)
    return "" if DIGEST.match(text) else one_line(text, MAX_OF_A_VALUE)
