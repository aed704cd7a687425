"""Test-set access by the ledger: one evaluation is a measurement, more is a choice.

An export's worker writes `test_look` before it evaluates the test split, so that one that ends afterwards, however it
ends, counts too. A replay, a smoke run and every other kind fingerprint the split and drop it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select

from trainwright.tools.ledger import ProjectFacts, entries
from trainwright.tools.workspace.kept import note_whole_workspace
from trainwright.tools.workspace.tables import Project
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evidence import Data
from trainwright.trainer.run.results import TestSetAccess

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.ledger.events import RunSealed
    from trainwright.tools.workspace import Workspace

DELETED = "project_deleted"
TRACES = frozenset({"artifacts/test_look.json", "artifacts/export.json"})


class Look(NamedTuple):
    """One evaluation of the test split."""

    run: str
    """The export."""
    of: str
    """The run whose checkpoint was exported."""
    project: str
    shared: int | None = None
    """Of this test split's samples, how many it evaluated where it was another project's; None: its own project's, or
    not known."""


def own_looks(evidence: Evidence) -> list[Look]:
    """Return the project's own looks at its test split, this one or one it had before, in order of their start."""
    return _looks(evidence.workspace, evidence.name, evidence.facts)


def looks_of_others(evidence: Evidence, split: TestSetAccess) -> list[Look]:
    """Return the looks of the workspace's other projects, deleted ones too, at samples of this test split.

    A project made anew with another `data.split.seed` tests on part of the same samples.

    Args:
        split: the `test_look` of the present export: fingerprint and digests of the samples.
    """
    note_whole_workspace()
    names = evidence.session.scalars(select(Project.name).where(Project.name != evidence.name).order_by(Project.name))
    found = [
        look._replace(shared=_shared(split, _split_of(evidence.workspace, look)))
        for name in names
        for look in _looks(evidence.workspace, name, ProjectFacts(evidence.session, name))
    ]
    deleted = [body for _, body in entries(evidence.session, None, DELETED, before=evidence.before)]
    found += [
        Look(told["run"], told["of"], told["project"], _shared(split, TestSetAccess.model_validate(told)))
        for body in deleted
        for told in body.get("test_looks", [])
    ]
    return [look for look in found if look.shared]


def looks_to_keep(session: Session, workspace: Workspace, project: str) -> list[dict[str, Any]]:
    """Return the project's looks with what they saw, for the ledger: its files are to be deleted."""
    looks = _looks(workspace, project, ProjectFacts(session, project))
    return [
        {"run": look.run, "of": look.of, "project": project, **_split_of(workspace, look).as_dict()} for look in looks
    ]


def _shared(split: TestSetAccess, other: TestSetAccess) -> int:
    """Return how many samples two splits have in common: all, if they are the same."""
    if split.fingerprint is not None and split.fingerprint == other.fingerprint:
        return split.size or 1
    return len(set(split.samples) & set(other.samples))


def _looks(workspace: Workspace, project: str, facts: ProjectFacts) -> list[Look]:
    return [
        Look(run_id, str(start.source_run), project)
        for run_id, start in facts.started.items()
        if start.kind == RunKind.EXPORT and _has_looked(workspace, project, run_id, facts.seals.get(run_id))
    ]


def _has_looked(workspace: Workspace, project: str, run_id: str, seal: RunSealed | None) -> bool:
    """By its seal, which outlives the files; a run that goes on or could not be read counts if it may have looked."""
    if seal is not None and seal.digests:
        return bool(TRACES & seal.digests.keys())
    folder = workspace.run_directory(project, run_id).path
    return seal is not None or any((folder / trace).exists() for trace in TRACES)


def _split_of(workspace: Workspace, look: Look) -> TestSetAccess:
    """Return what the look's export recorded of its test split; the fingerprint alone where `test_look` is gone."""
    directory = workspace.run_directory(look.project, look.run)
    try:
        return directory.part(TestSetAccess) or TestSetAccess(**directory.part(Data).test.as_dict())
    except TrainwrightError:  # a damaged record; `verify` names it
        return TestSetAccess()
