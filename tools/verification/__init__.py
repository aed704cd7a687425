"""`trainwright verify`: compare ledger, JSONL mirrors, tables, run records and artifacts with each other (GATE-3)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from pydantic import BaseModel, computed_field
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from trainwright.tools.gates.artifacts import publish
from trainwright.tools.ledger.chain import broken_links
from trainwright.tools.ledger.events import EVENTS, read_body, read_event
from trainwright.tools.verification.diagnoses import verify_answers, verify_cures, verify_diagnoses
from trainwright.tools.verification.evaluations import verify_evaluations
from trainwright.tools.verification.files import verify_artifacts, verify_checkpoints, verify_runs
from trainwright.tools.verification.findings import Case, Finding, Found, Tell, found
from trainwright.tools.verification.promotions import verify_promotions, verify_served
from trainwright.tools.verification.releases import verify_carried, verify_releases, verify_since
from trainwright.tools.verification.rows import (
    verify_configurations,
    verify_copies,
    verify_goals,
    verify_rows,
    verify_times,
    verify_triggers,
)
from trainwright.tools.verification.searches import verify_ablations, verify_searches
from trainwright.tools.verification.signatures import attestation
from trainwright.tools.verification.verdicts import verify_verdicts
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.open_checks import require_database
from trainwright.tools.workspace.signing import PublicKey
from trainwright.tools.workspace.tables import LedgerEntry, Project, RegisteredModel, Run, Study, Trial
from trainwright.trainer.base.errors import NotFoundError, TrainwrightError

__all__ = ["Finding", "VerificationReport", "verify_workspace"]

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError, SQLAlchemyError)
"""Errors raised by a value that no server has written."""
PARTS: dict[str, Callable[[Case], Found]] = {
    "plain_copies": verify_copies,
    "times": verify_times,
    "projects": partial(verify_rows, Project),
    "configurations": verify_configurations,
    "releases": verify_releases,
    "carried_over": verify_carried,
    "owner_requests": verify_answers,
    "goals": verify_goals,
    "studies": partial(verify_rows, Study),
    "trials": partial(verify_rows, Trial),
    "searches": verify_searches,
    "runs": partial(verify_rows, Run),
    "sealed_runs": verify_runs,
    "evaluations": verify_evaluations,
    "checkpoints": verify_checkpoints,
    "artifacts": verify_artifacts,
    "registered_models": partial(verify_rows, RegisteredModel),
    "promotions": verify_promotions,
    "served": verify_served,
    "triggers": verify_triggers,
    "verdicts": verify_verdicts,
    "diagnoses": verify_diagnoses,
    "tried_fixes": verify_cures,
    "ablation_studies": verify_ablations,
    "finished_projects": verify_since,
}


class VerificationReport(BaseModel):
    """The comparisons made, and every difference found."""

    findings: list[Finding]
    checked: dict[str, int]
    """How many ledger entries, decisions, configurations, runs, checkpoints and artifacts were compared."""
    attested: str
    """From which entry to which the ledger is signed, or that it is not."""
    head: str
    """Digest of the last ledger entry: kept elsewhere, it shows a ledger that was cut or rewritten."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def problems(self) -> list[str]:
        """The differences that nothing explains."""
        return [finding.what for finding in self.findings if finding.counts]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def of_other_versions(self) -> int:
        """How much this version derives differently from the one that recorded it, without anything being loosened."""
        return sum(finding.where == "version" for finding in self.findings)


def verify_workspace(
    path: Path,
    public_key: Path | None = None,
    *,
    noted_head: str | None = None,
    tell: Tell | None = None,
    evaluates: bool = False,
) -> VerificationReport:
    """Compare everything with the ledger. Changes nothing, but completes the recorded work of a killed server.

    Args:
        public_key: file of the key with which the ledger should be signed.
        noted_head: digest with which the ledger ended at an earlier time, as an earlier report said.
        tell: called with the kind of comparison, the number done, and their total.
        evaluates: compute the evaluations of releases again, in the clean room.

    Raises:
        NotFoundError: the folder is not a workspace, or there is no such key.
        ConfigurationError: the key is none.
        IntegrityError: the database cannot be read at all.
    """
    require_database(path / "workspace.sqlite")
    if not (path / "workspace.sqlite").is_file():
        raise NotFoundError(f"{path} is not a workspace.", remedy="Name the folder that holds workspace.sqlite.")
    public = PublicKey.load(public_key) if public_key else None
    workspace = Workspace.open(path)

    def case(session: Session) -> Case:
        made = Case(session, workspace, public, evaluates=evaluates)
        made.tell = tell or made.tell
        return made

    try:
        with workspace.session() as session:
            for project in session.scalars(select(Project.name)):
                with suppress(TrainwrightError, *UNREADABLE):  # the comparison below reports what cannot be finished
                    publish(session, project, workspace.project_folder(project))
        with workspace.snapshot() as session:  # reading every file may take minutes: nobody waits for it
            report = _compare(case(session), noted_head)
        with workspace.session() as session:
            last = session.scalar(select(LedgerEntry.digest).order_by(LedgerEntry.sequence.desc()).limit(1))
            if report.findings and last != report.head:  # a server was at work meanwhile: look again while it waits
                report = _compare(case(session), noted_head)
    finally:
        workspace.close()
    return report


def _compare(case: Case, noted_head: str | None) -> VerificationReport:
    findings = found("ledger", broken_links(case.session) + _unreadable(case) + _without(noted_head, case))
    checked = {"ledger_entries": len(case.entries)}
    for name, verify in PARTS.items():
        case.tell(name.replace("_", " "), 0, 1)
        checked[name], more = _part(verify, name, case)
        findings += more
    attested, more = attestation(case)
    head = case.entries[-1].digest if case.entries else ""
    return VerificationReport(findings=findings + more, checked=checked, attested=attested, head=head)


def _part(verify: Callable[[Case], Found], name: str, case: Case) -> Found:
    """Compare one part. Values that no server writes there are a difference, and the other parts are still compared."""
    try:
        return verify(case)
    except TrainwrightError as error:
        text = error.message
    except UNREADABLE as error:
        text = f"{type(error).__name__}: {error}"
    return 0, found("database", [f"{name.replace('_', ' ')} cannot be read: {' '.join(text.split())[:200]}"])


def _unreadable(case: Case) -> list[str]:
    """Return a sentence for every entry of a known kind whose body cannot be read."""
    entries = (entry for entry in case.entries if entry.kind in EVENTS)
    silent = [entry for entry in entries if read_event(entry.kind, read_body(entry.body)) is None]
    return [f"ledger entry {entry.sequence} ({entry.kind}) cannot be read" for entry in silent]


def _without(noted_head: str | None, case: Case) -> list[str]:
    """Return a sentence when the ledger does not hold the entry with which it once ended."""
    if noted_head is None or any(entry.digest == noted_head for entry in case.entries):
        return []
    return [f"the ledger holds no entry {noted_head[:80]}, with which it once ended: it was cut off or rewritten"]
