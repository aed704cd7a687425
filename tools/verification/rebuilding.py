"""`trainwright rebuild`: the database rebuilt from the JSONL mirrors, where it was lost (GATE-3).

The ledger says all that decides; rows are its index. What it never held is gone with the database: the trials of a
study that had not ended, and the sampler's notes on them.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from trainwright.tools.ledger.events import read_body, read_event
from trainwright.tools.ledger.jsonl_mirror import NAME, read_line
from trainwright.tools.ledger.rows import KEYS, Rows
from trainwright.tools.verification.findings import deleted_projects
from trainwright.tools.workspace.open_checks import require_lost
from trainwright.tools.workspace.schema_version import make_if_missing
from trainwright.tools.workspace.tables import LedgerEntry, Project, Run
from trainwright.tools.workspace.workspace import DATABASE, PATIENCE_SECONDS
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import NotFoundError, TrainwrightError
from trainwright.trainer.data.remote.query import sqlite_url
from trainwright.trainer.run import RunDirectory

DRAFT = ".workspace.rebuilding.sqlite"
MAX_NAMED = 5


class Rebuilt(BaseModel):
    """What was rebuilt."""

    entries: int
    """Of the ledger."""
    projects: list[str]
    runs: int
    problems: list[str]
    """Lines and entries that are missing or damaged: their content is lost."""
    moved: list[str]
    """Files of the old database, under their present names."""


def rebuild_workspace(path: Path) -> Rebuilt:
    """Build the workspace's database from the JSONL mirrors, in place of one that is missing, empty or damaged.

    Raises:
        NotFoundError: there are no JSONL mirrors.
        ConflictError: the database is there and can be read.
    """
    path = path.expanduser().resolve()
    require_lost(path / DATABASE)
    found, problems = _entries(path)
    if not found:
        raise NotFoundError(
            f"There are no JSONL mirrors in {path}.", remedy=f"Name the folder that holds projects/*/{NAME}."
        )
    draft = path / DRAFT
    draft.unlink(missing_ok=True)
    make_if_missing(draft, PATIENCE_SECONDS)
    engine = create_engine(sqlite_url(draft))
    with Session(engine) as session, session.begin():
        session.add_all(found)
        count, rows = len(found), _rows(path, found)
        for table in KEYS:
            session.add_all(rows.of(table))
            session.flush()
        projects, runs = [row.name for row in rows.of(Project)], len(rows.of(Run))
    engine.dispose()
    moved = _put_in_place(path, draft)
    return Rebuilt(entries=count, projects=projects, runs=runs, problems=problems, moved=moved)


def _rows(path: Path, entries: list[LedgerEntry]) -> Rows:
    """Return the rows of the projects that were not deleted, with columns from the files of sealed runs."""
    rows = Rows()
    gone = deleted_projects(entries)
    for entry in entries:
        event = read_event(entry.kind, read_body(entry.body))
        if event is not None and entry.project is not None and entry.project not in gone:
            rows.take(entry.project, datetime.fromisoformat(entry.time), event)
    for run in rows.of(Run):
        with suppress(TrainwrightError):  # damaged: `verify` names it
            directory = RunDirectory(path / "projects" / run.project / "runs" / run.id)
            run.summary = directory.evidence("summary") if run.sealed else None
    return rows


def _entries(path: Path) -> tuple[list[LedgerEntry], list[str]]:
    """Return the entries of the mirrors, in order, and a sentence for each that is damaged or missing."""
    found: dict[int, LedgerEntry] = {}
    problems = []
    for copy in [path / NAME, *sorted(path.glob(f"projects/*/{NAME}"))]:
        for number, line in enumerate(copy.read_bytes().splitlines() if copy.is_file() else [], start=1):
            value = read_line(line)
            if value is None or digest_json(value["entry"]) != value["digest"]:
                problems.append(f"{copy.relative_to(path)}: line {number} is damaged, and left out")
                continue
            sequence, time, project, kind, body, previous = value["entry"]
            found[sequence] = LedgerEntry(
                sequence=sequence, time=time, project=project, kind=kind, body=body, previous=previous,
                digest=value["digest"], signature=value.get("signature"),
            )  # fmt: skip
    missing = sorted(set(range(1, max(found, default=0) + 1)) - found.keys())
    if missing:
        named = ", ".join(map(str, missing[:MAX_NAMED])) + (" …" if len(missing) > MAX_NAMED else "")
        problems.append(f"ledger entries are missing: {named}")
    return [found[sequence] for sequence in sorted(found)], problems


def _put_in_place(path: Path, draft: Path) -> list[str]:
    """Move the old database's files aside, its log included, and the new one to its place."""
    moved = []
    number = 1 + len(list(path.glob(f"{DATABASE}.before-*")))
    for end in ("", "-wal", "-shm"):
        old = path / f"{DATABASE}{end}"
        if old.exists():
            moved.append(old.rename(path / f"{DATABASE}.before-{number}{end}").name)
    draft.rename(path / DATABASE)
    return moved
