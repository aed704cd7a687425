"""`trainwright rebuild`: the database made anew from the plain ledgers, where it was lost (GATE-3).

The ledger says all that decides; rows are its index. What it never held is gone with the database: the trials of a
study that had not ended, and the sampler's notes on them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from trainwright.tools.ledger.jsonl_mirror import NAME, read_line
from trainwright.tools.ledger.projection import MOVED
from trainwright.tools.verification.findings import deleted_projects
from trainwright.tools.workspace.presence import require_lost
from trainwright.tools.workspace.schema_version import upgrade_if_needed
from trainwright.tools.workspace.tables import (
    ConfigVersion,
    GateDecision,
    LedgerEntry,
    Project,
    RegisteredModel,
    Run,
    Study,
    Trial,
)
from trainwright.tools.workspace.workspace import DATABASE, PATIENCE_SECONDS
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import NotFoundError, TrainwrightError
from trainwright.trainer.run import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable

Pairs = list[tuple[LedgerEntry, dict[str, Any]]]
DRAFT = ".workspace.rebuilding.sqlite"
MOST_NAMED = 5


class Rebuilt(BaseModel):
    """What was made anew."""

    entries: int
    """Of the ledger."""
    projects: list[str]
    runs: int
    problems: list[str]
    """Lines and entries that are missing or damaged: what stood in them is not there any more."""
    moved: list[str]
    """Files of the old database, under the names that they have now."""


def rebuild_workspace(path: Path) -> Rebuilt:
    """Make the workspace's database from the plain ledgers, in place of one that is missing, empty or damaged.

    Raises:
        NotFoundError: there are no plain ledgers.
        ConflictError: the database is there and can be read.
    """
    path = path.expanduser().resolve()
    require_lost(path / DATABASE)
    found, problems = _entries(path)
    if not found:
        raise NotFoundError(
            f"There are no plain ledgers in {path}.", remedy=f"Name the folder that holds projects/*/{NAME}."
        )
    draft = path / DRAFT
    draft.unlink(missing_ok=True)
    upgrade_if_needed(draft, PATIENCE_SECONDS)
    engine = create_engine(f"sqlite:///{draft}")
    pairs = [(entry, json.loads(entry.body)) for entry in found]
    gone = deleted_projects(pairs)
    living = [(entry, body) for entry, body in pairs if entry.project is not None and entry.project not in gone]
    with Session(engine) as session, session.begin():
        session.add_all(found)
        rows = [*_projects(living), *_configurations(living), *_studies(living), *_runs(path, living)]
        session.add_all(rows)
        session.add_all([*_decisions(living), *_models(living)])
        projects = [row.name for row in rows if isinstance(row, Project)]
        runs = sum(isinstance(row, Run) for row in rows)
        count = len(found)
    engine.dispose()
    moved = _put_in_place(path, draft)
    return Rebuilt(entries=count, projects=projects, runs=runs, problems=problems, moved=moved)


def _entries(path: Path) -> tuple[list[LedgerEntry], list[str]]:
    """Return the entries that the plain copies hold, in order, and what is damaged or missing among them."""
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
        named = ", ".join(map(str, missing[:MOST_NAMED])) + (" …" if len(missing) > MOST_NAMED else "")
        problems.append(f"ledger entries are missing: {named}")
    return [found[sequence] for sequence in sorted(found)], problems


def _moment(told: Any, entry: LedgerEntry) -> datetime:
    return datetime.fromisoformat(str(told or entry.time))


def _of(pairs: Pairs, *kinds: str) -> Pairs:
    return [(entry, body) for entry, body in pairs if entry.kind in kinds]


def _projects(pairs: Pairs) -> Iterable[Project]:
    moved = {entry.project: body["code_root"] for entry, body in _of(pairs, MOVED)}
    for entry, body in _of(pairs, "project_created"):
        columns = {name: body[name] for name in ("intent", "goal", "limits", "code_root")}
        columns["code_root"] = moved.get(entry.project, columns["code_root"])
        yield Project(name=entry.project, created_at=_moment(body.get("created_at"), entry), **columns)


def _configurations(pairs: Pairs) -> Iterable[ConfigVersion]:
    for entry, body in _of(pairs, "config_version"):
        columns = {name: body[name] for name in ("number", "values", "digest", "reason")}
        yield ConfigVersion(project=entry.project, created_at=_moment(body.get("created_at"), entry), **columns)


def _runs(path: Path, pairs: Pairs) -> Iterable[Run]:
    rows: dict[str, Run] = {}
    for entry, body in _of(pairs, "run_started", "run_resumed", "run_sealed"):
        run_id = body["run_id"]
        if entry.kind == "run_started":
            columns = ("kind", "label", "seed", "config_digest", "base_config_digest", "source_run", "study")
            rows[run_id] = Run(
                id=run_id, project=entry.project, idempotency_key=body.get("idempotency_key"),
                created_at=_moment(body.get("created_at"), entry), **{name: body[name] for name in columns},
            )  # fmt: skip
            continue
        if run_id not in rows:
            continue  # the line of its start is lost
        row, is_sealed = rows[run_id], entry.kind == "run_sealed"
        row.state, row.sealed = (body["state"] if is_sealed else "created"), is_sealed
        row.ended_at = _moment(body.get("ended_at"), entry) if is_sealed else None
        row.summary = _summary(path, str(entry.project), run_id) if is_sealed else None
    return rows.values()


def _summary(path: Path, project: str, run_id: str) -> dict[str, Any] | None:
    try:
        return RunDirectory(path / "projects" / project / "runs" / run_id).evidence("summary")
    except TrainwrightError:  # damaged: `verify` names it
        return None


def _studies(pairs: Pairs) -> Iterable[Study | Trial]:
    values: dict[tuple[str | None, str], dict[str, Any]] = {}
    rows: dict[str, Study] = {}
    trials: dict[str, list[Trial]] = defaultdict(list)
    for entry, body in _of(pairs, "config_version", "study"):
        if entry.kind == "config_version":
            values[entry.project, body["digest"]] = {k: v for k, v in body["values"].items() if k != "search"}
            continue
        study_id = body["study_id"]
        if study_id not in rows and "search" not in body:
            continue  # the line of its start is lost
        if study_id not in rows:
            rows[study_id] = Study(
                id=study_id, project=entry.project, created_at=_moment(body.get("created_at"), entry),
                base_values=values.get((entry.project, body["base_config_digest"]), {}),
                **{name: body.get(name) for name in ("search", "objective", "base_config_digest", "idempotency_key")},
            )  # fmt: skip
        row = rows[study_id]
        row.state, row.confirmation, row.failure = body["state"], body.get("confirmation"), body.get("failure")
        row.ended_at = _moment(None, entry) if body["state"] in {"completed", "failed", "stopped"} else None
        trials[study_id] = [Trial(study=study_id, attributes={}, **line) for line in body.get("trials", [])]
    return [*rows.values(), *(trial for own in trials.values() for trial in own)]


def _decisions(pairs: Pairs) -> Iterable[GateDecision]:
    for entry, body in _of(pairs, "gate"):
        yield GateDecision(
            project=entry.project, phase=body["phase"], passed=body["outcome"] != "refused",
            report={"outcome": body["outcome"], "checks": body["checks"]}, rested_on=body["rested_on"],
            ledger_sequence=entry.sequence, created_at=_moment(body.get("created_at"), entry),
        )  # fmt: skip


def _models(pairs: Pairs) -> Iterable[RegisteredModel]:
    for entry, body in _of(pairs, "model_registered"):
        columns = {name: body[name] for name in ("version", "checkpoint_digest", "metrics", "lineage")}
        created = _moment(body.get("created_at"), entry)
        yield RegisteredModel(project=entry.project, run=body["run_id"], created_at=created, **columns)


def _put_in_place(path: Path, draft: Path) -> list[str]:
    """Move what is left of the old database aside, with its log, and the new one to its place."""
    moved = []
    number = 1 + len(list(path.glob(f"{DATABASE}.before-*")))
    for end in ("", "-wal", "-shm"):
        old = path / f"{DATABASE}{end}"
        if old.exists():
            moved.append(old.rename(path / f"{DATABASE}.before-{number}{end}").name)
    draft.rename(path / DATABASE)
    return moved
