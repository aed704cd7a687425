"""Test-set access by the ledger: one evaluation is a measurement, more is a choice.

An export's worker writes `test_look` before it evaluates the test split, so that one that ends afterwards, however it
ends, is an access too. A replay, a smoke run and every other kind fingerprint the split and drop it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.ledger import ProjectFacts, entries
from trainwright.tools.ledger.events import RunSealed
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Project
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.evidence import Code, Data
from trainwright.trainer.run.results import TestSetAccess
from trainwright.trainer.run.split_rows import PARTS, SplitRows, rows_tested_by_both

DELETED = "project_deleted"
TRACES = frozenset({"artifacts/test_look.json", "artifacts/export.json"})
FIGURES = frozenset({"artifacts/export.json", "artifacts/final_model/metrics.json"})
"""Files in which an export tells its figures of the test split."""


class SplitAccess(NamedTuple):
    """One evaluation of the test split."""

    run: str
    """The export."""
    of: str
    """The run whose checkpoint was exported."""
    project: str
    shared: int | None = None
    """Test samples that another project had evaluated; None for the project's accesses, or where not known."""
    before: int = 0
    """Earlier accesses of the same checkpoint, which this one stands for."""


def project_accesses(evidence: Evidence) -> list[SplitAccess]:
    """Return the project's test-set accesses, to this split or an earlier one, in order of their start."""
    return _looks(evidence.workspace, evidence.name, evidence.facts)


def informative(evidence: Evidence, found: list[SplitAccess]) -> list[SplitAccess]:
    """Return the accesses by which a choice could be made: one of each checkpoint, the latest, that told a figure.

    The figures of a checkpoint are the same each time, so a second export of it offers nothing to choose from.
    """
    told = [look for look in found if _may_have_told(evidence, look)]
    of_each = Counter((look.project, look.of) for look in told)
    latest = {(look.project, look.of): look for look in told}
    return [look._replace(before=of_each[checkpoint] - 1) for checkpoint, look in latest.items()]


def _may_have_told(evidence: Evidence, look: SplitAccess) -> bool:
    """Return whether figures could be read: not of a failed export without user code, which could have told them."""
    facts = evidence.facts if look.project == evidence.name else ProjectFacts(evidence.session, look.project)
    seal = facts.seals.get(look.run)
    if seal is None or seal.state != RunState.FAILED or not seal.digests or look.run in facts.evaluations:
        return True
    try:
        code = evidence.workspace.run_directory(look.project, look.run).part(Code)
    except TrainwrightError:
        return True
    return bool(FIGURES & seal.digests.keys() or code.files or not code)


def accesses_by_others(evidence: Evidence, split: TestSetAccess) -> list[SplitAccess]:
    """Return accesses by the workspace's other projects, deleted ones too, to samples of this test split.

    A project made anew with another `data.split.seed` tests on part of the same samples.

    Args:
        split: the `test_look` of the present export: fingerprint and digests of the samples.
    """
    evidence.inspection.sources.are_all_projects = True
    names = evidence.session.scalars(select(Project.name).where(Project.name != evidence.name).order_by(Project.name))
    others = {name: ProjectFacts(evidence.session, name) for name in names}
    found = [
        look._replace(
            shared=max(
                shared_samples(split, _split_of(evidence.workspace, look)),
                _rows_tested_too(evidence, look, facts.rows_run(look.run)),
            )
        )
        for name, facts in others.items()
        for look in _looks(evidence.workspace, name, facts)
    ]
    deleted = [body for _, body in entries(evidence.session, None, DELETED, before=evidence.before)]
    found += [
        SplitAccess(
            access["run"], access["of"], access["project"], shared_samples(split, TestSetAccess.model_validate(access))
        )
        for body in deleted
        for access in body.get("test_looks", [])
    ]
    return [look for look in found if look.shared]


def _rows_tested_too(evidence: Evidence, look: SplitAccess, planned: str) -> int:
    """Return how many of the present plan's test rows another project's access evaluated, as plans know rows.

    Its file may have a column more, in which no row has the digest that it has here.

    Args:
        look: by the other project.
        planned: the smoke run that fixed the rows of the access; empty where none did.
    """
    if not planned or evidence.smoke is None:
        return 0
    other = evidence.workspace.run_directory(look.project, planned)
    try:
        theirs, ours = other.part(SplitRows), evidence.smoke.split_rows
        return rows_tested_by_both(theirs, other.artifacts, ours, evidence.smoke.directory.artifacts)
    except TrainwrightError:  # a damaged record; `verify` names it
        return 0


def has_evaluated(evidence: Evidence, run: RunEvidence) -> bool:
    """Return whether the project's model was evaluated on rows of a smoke run's test split."""
    rows, test = run.split_rows, run.data.test
    held = rows.read(run.directory.artifacts).get("test", []) if rows.kept else []
    inputs = [one[PARTS["inputs"]].hex() for one in held]
    places = [int.from_bytes(one[PARTS["place"]], "big") - 1 for one in held]
    split = TestSetAccess(
        size=test.size, fingerprint=test.fingerprint, source=rows.source, inputs=inputs, places=places
    )
    return any(shared_samples(split, _split_of(evidence.workspace, look)) for look in project_accesses(evidence))


def accesses_to_keep(session: Session, workspace: Workspace, project: str) -> list[dict[str, Any]]:
    """Return the project's accesses with their samples, for the ledger: its files are to be deleted."""
    looks = _looks(workspace, project, ProjectFacts(session, project))
    return [
        {"run": look.run, "of": look.of, "project": project, **_split_of(workspace, look).as_dict()} for look in looks
    ]


def shared_samples(split: TestSetAccess, other: TestSetAccess) -> int:
    """Return how many samples two splits have in common, under whatever targets: all, if they are the same."""
    if split.fingerprint is not None and split.fingerprint == other.fingerprint:
        return split.size or 1
    of_files = split.places if split.source and split.source == other.source else []
    pairs = ((split.samples, other.samples), (split.inputs, other.inputs), (of_files, other.places))
    return max(len(set(first).intersection(second)) for first, second in pairs)


def _looks(workspace: Workspace, project: str, facts: ProjectFacts) -> list[SplitAccess]:
    return [
        SplitAccess(run_id, str(start.source_run), project)
        for run_id, start in facts.started.items()
        if start.kind == RunKind.EXPORT and _has_looked(workspace, project, run_id, facts.seals.get(run_id))
    ]


def _has_looked(workspace: Workspace, project: str, run_id: str, seal: RunSealed | None) -> bool:
    """By its seal, which outlives the files; a running or unreadable run counts if it may have evaluated the split."""
    if seal is not None and seal.digests:
        return bool(TRACES & seal.digests.keys())
    folder = workspace.run_directory(project, run_id).path
    return seal is not None or any((folder / trace).exists() for trace in TRACES)


def _split_of(workspace: Workspace, look: SplitAccess) -> TestSetAccess:
    """Return the test split that the access's export recorded; the fingerprint alone where `test_look` is gone."""
    directory = workspace.run_directory(look.project, look.run)
    try:
        return directory.part(TestSetAccess) or TestSetAccess(**directory.part(Data).test.as_dict())
    except TrainwrightError:  # a damaged record; `verify` names it
        return TestSetAccess()
