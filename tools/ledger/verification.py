"""`trainwright verify`: compare ledger, tables, run records, checkpoints and artifacts with each other (GATE-3)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from sqlalchemy import select, text

from trainwright.tools.gates.publication import publish
from trainwright.tools.ledger.chain import broken_links
from trainwright.tools.ledger.facts import ProjectFacts
from trainwright.tools.ledger.seals import seal_differences
from trainwright.tools.workspace import Workspace
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
from trainwright.trainer.canonical import digest_file
from trainwright.trainer.checkpoints.index import list_checkpoints, verify_checkpoint
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.errors import NotFoundError, TrainwrightError

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from trainwright.trainer.run import RunDirectory


class VerificationReport(BaseModel):
    """What was compared, and every difference found."""

    problems: list[str]
    checked: dict[str, int]
    """How many ledger entries, decisions, configurations, runs, checkpoints and artifacts were compared."""


class _Facts:
    """The ledger's entries by kind, read once; an entry whose body is not JSON any more counts as missing."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._projects: dict[str, ProjectFacts] = {}
        self.entries = list(session.scalars(select(LedgerEntry).order_by(LedgerEntry.sequence)))
        self.bodies: list[tuple[LedgerEntry, dict[str, Any]]] = []
        for entry in self.entries:
            try:
                self.bodies.append((entry, json.loads(entry.body)))
            except ValueError:
                continue

    def project(self, name: str) -> ProjectFacts:
        """Return what the ledger says of one project."""
        if name not in self._projects:
            self._projects[name] = ProjectFacts(self._session, name)
        return self._projects[name]

    def of(self, kind: str) -> list[tuple[LedgerEntry, dict[str, Any]]]:
        """Return the entries of a kind in order."""
        return [(entry, body) for entry, body in self.bodies if entry.kind == kind]


def verify_workspace(path: Path) -> VerificationReport:
    """Compare everything with the ledger. Changes nothing, but finishes what a killed server had recorded.

    Raises:
        NotFoundError: the folder is not a workspace.
        IntegrityError: the database cannot be read at all.
    """
    if not (path / "workspace.sqlite").is_file():
        raise NotFoundError(f"{path} is not a workspace.", remedy="Name the folder that holds workspace.sqlite.")
    workspace = Workspace.open(path)
    try:
        with workspace.session() as session:
            facts = _Facts(session)
            problems = broken_links(session)
            checked = {"ledger_entries": len(facts.entries)}
            for name, verify in _PARTS:
                count, found = verify(session, workspace, facts)
                checked[name] = count
                problems += found
    finally:
        workspace.close()
    return VerificationReport(problems=problems, checked=checked)


def _projects(session: Session, _: Workspace, facts: _Facts) -> tuple[int, list[str]]:
    rows = {row.name: row for row in session.scalars(select(Project))}
    problems = [difference for row in rows.values() for difference in facts.project(row.name).project_differences(row)]
    recorded = [entry.project for entry, _ in facts.of("project_created")]
    problems += [f"project {name} was removed from the database" for name in recorded if name not in rows]
    return len(rows), problems


def _configurations(session: Session, _: Workspace, facts: _Facts) -> tuple[int, list[str]]:
    rows = {(row.project, row.number): row for row in session.scalars(select(ConfigVersion))}
    problems = []
    for (project, number), row in rows.items():
        found = facts.project(project).configuration_differences(row)
        if not found and _digest_of(row) != row.digest:
            found = [f"project {project}: configuration version {number} does not have its recorded digest"]
        problems += found
    recorded = [(entry.project, body["number"]) for entry, body in facts.of("config_version")]
    problems += [f"project {p}: configuration version {n} was removed" for p, n in recorded if (p, n) not in rows]
    return len(rows), problems


def _decisions(session: Session, _: Workspace, facts: _Facts) -> tuple[int, list[str]]:
    recorded = {entry.sequence: body for entry, body in facts.of("gate")}
    rows = {row.ledger_sequence: row for row in session.scalars(select(GateDecision))}
    problems = []
    for sequence, row in rows.items():
        body = recorded.get(sequence)
        what = f"project {row.project}: decision on {row.phase} (ledger {sequence})"
        if body is None:
            problems.append(f"{what} has no ledger entry")
        elif row.passed != (body["outcome"] != "refused") or row.phase != body["phase"]:
            problems.append(f"{what} was changed in the database")
        elif row.rested_on != body["rested_on"] or row.report["checks"] != body["checks"]:
            problems.append(f"{what}: its evidence was changed in the database")
    problems += [f"the decision of ledger entry {s} was removed from the database" for s in recorded if s not in rows]
    return len(rows), problems


def _runs(session: Session, workspace: Workspace, facts: _Facts) -> tuple[int, list[str]]:
    rows = {row.id: row for row in session.scalars(select(Run))}
    problems, sealed = [], 0
    for run_id, row in rows.items():
        own, directory = facts.project(row.project), workspace.run_directory(row.project, run_id)
        problems += own.run_differences(row)
        problems += [f"run {run_id} was sealed twice without having been resumed"] * (run_id in own.resealed)
        if (seal := own.seals.get(run_id)) is not None:
            sealed += 1
            problems += seal_differences(directory, seal["digests"])
        elif (body := own.started.get(run_id)) is not None:
            problems += _changed_order(directory, body["specification"])
    recorded = [body["run_id"] for _, body in facts.of("run_started")]
    problems += [f"run {run_id} was removed from the database" for run_id in recorded if run_id not in rows]
    return sealed, problems


def _changed_order(run: RunDirectory, digest: str) -> list[str]:
    path = run.path / "run.json"
    same = path.is_file() and digest_file(path) == digest
    return [] if same else [f"run {run.run_id}: run.json was changed after the start"]


def _studies(session: Session, _: Workspace, facts: _Facts) -> tuple[int, list[str]]:
    recorded = {body["study_id"]: body for _, body in facts.of("study")}
    rows = {row.id: row for row in session.scalars(select(Study))}
    problems = []
    for study_id, row in rows.items():
        body = recorded.get(study_id)
        if body is None:
            problems.append(f"study {study_id} has no ledger entry")
        elif row.state == "completed" and row.confirmation != body.get("confirmation"):
            problems.append(f"study {study_id}: its confirmation was changed in the database")
        elif row.state == "completed" and "trials" in body:
            problems += _changed_trials(session, study_id, body["trials"])
    problems += [f"study {study_id} was removed from the database" for study_id in recorded if study_id not in rows]
    return len(rows), problems


def _changed_trials(session: Session, study_id: str, recorded: list[dict[str, Any]]) -> list[str]:
    rows = session.scalars(select(Trial).where(Trial.study == study_id).order_by(Trial.number))
    found = [{name: getattr(row, name) for name in recorded[0]} for row in rows] if recorded else []
    if len(found) != len(recorded):
        return [f"study {study_id}: it has {len(found)} trials, the ledger has {len(recorded)}"]
    pairs = zip(found, recorded, strict=True)
    return [f"study {study_id}: trial {b['number']} was changed in the database" for a, b in pairs if a != b]


def _checkpoints(session: Session, workspace: Workspace, _: _Facts) -> tuple[int, list[str]]:
    count, problems = 0, []
    for row in session.scalars(select(Run)):
        directory = workspace.run_directory(row.project, row.id)
        try:
            records = list_checkpoints(directory)
        except TrainwrightError as error:
            problems.append(f"run {row.id}: {error.message}")
            continue
        count += len(records)
        for record in records:
            problems += [f"run {row.id}: checkpoint {record.name}: {text}" for text in verify_checkpoint(record.path)]
    return count, problems


def _artifacts(session: Session, workspace: Workspace, facts: _Facts) -> tuple[int, list[str]]:
    """Compare the newest recorded digest of every artifact; older ones were replaced by the server itself."""
    for project in session.scalars(select(Project.name)):
        publish(session, project, workspace.project_folder(project))
    newest: dict[tuple[str, str], dict[str, str]] = {}
    for entry, body in facts.bodies:
        if entry.project is None or entry.kind not in {"gate", "diagnosis"} or not body.get("artifacts"):
            continue
        newest[entry.project, body.get("phase", "diagnostics")] = body["artifacts"]
    named = [(project, name, digest) for (project, _), files in newest.items() for name, digest in files.items()]
    problems = []
    for project, name, digest in named:
        path = workspace.project_folder(project) / name
        if not path.is_file():
            problems.append(f"project {project}: artifact {name} was removed")
        elif digest_file(path) != digest:
            problems.append(f"project {project}: artifact {name} was changed")
    for project in {project for project, _, _ in named}:
        listed = {name for owner, name, _ in named if owner == project}
        extra = (path for path in (workspace.project_folder(project) / "final_model").rglob("*") if path.is_file())
        names = (str(path.relative_to(workspace.project_folder(project))) for path in extra)
        problems += [f"project {project}: {name} was added by hand" for name in names if name not in listed]
    return len(named), problems


def _models(session: Session, _: Workspace, facts: _Facts) -> tuple[int, list[str]]:
    recorded = {(entry.project, body["version"]): body for entry, body in facts.of("model_registered")}
    rows = {(row.project, row.version): row for row in session.scalars(select(RegisteredModel))}
    columns = ("run", "checkpoint_digest", "metrics", "lineage")
    problems = []
    for (project, version), row in rows.items():
        body = recorded.get((project, version))
        what = f"project {project}: registered model {version}"
        if body is None:
            problems.append(f"{what} has no ledger entry")
        elif any(name in body and getattr(row, name) != body[name] for name in columns):
            problems.append(f"{what} was changed in the database")
    problems += [f"project {p}: registered model {v} was removed" for p, v in recorded if (p, v) not in rows]
    return len(rows), problems


def _triggers(session: Session, _: Workspace, __: _Facts) -> tuple[int, list[str]]:
    names = set(session.scalars(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")))
    wanted = ("ledger_no_delete", "ledger_no_update")
    return len(wanted), [f"the database's trigger {name} was removed" for name in wanted if name not in names]


def _digest_of(row: ConfigVersion) -> str:
    try:
        return config_digest(parse_config(row.values))
    except TrainwrightError:
        return "not valid"


_PARTS = (
    ("projects", _projects),
    ("configurations", _configurations),
    ("decisions", _decisions),
    ("studies", _studies),
    ("sealed_runs", _runs),
    ("checkpoints", _checkpoints),
    ("artifacts", _artifacts),
    ("registered_models", _models),
    ("triggers", _triggers),
)
