"""How often a test split was looked at, by the ledger: once is a measurement, more is a choice.

An export's worker writes `test_look` before it evaluates the test split, so that one that ends afterwards, however it
ends, counts too. A replay, a smoke run and every other kind fingerprint the split and drop it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select

from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.workspace.tables import Project
from trainwright.trainer.errors import TrainwrightError
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence

TRACES = frozenset({"artifacts/test_look.json", "artifacts/export.json"})


class Look(NamedTuple):
    """One evaluation of the test split."""

    run: str
    """The export."""
    of: str
    """The run whose checkpoint was exported."""
    project: str


def own_looks(evidence: Evidence) -> list[Look]:
    """Return the project's own looks at its test split, this one or one it had before, in order of their start."""
    return _looks(evidence, evidence.name, evidence.facts)


def looks_of_others(evidence: Evidence, fingerprint: str) -> list[Look]:
    """Return the looks of the workspace's other projects at a test split of the same content."""
    names = evidence.session.scalars(select(Project.name).where(Project.name != evidence.name).order_by(Project.name))
    found = [look for name in names for look in _looks(evidence, name, ProjectFacts(evidence.session, name))]
    return [look for look in found if _fingerprint(evidence, look) == fingerprint]


def _looks(evidence: Evidence, project: str, facts: ProjectFacts) -> list[Look]:
    exports = {run_id: body for run_id, body in facts.started.items() if body["kind"] == RunKind.EXPORT}
    return [
        Look(run_id, str(body["source_run"]), project)
        for run_id, body in exports.items()
        if _has_looked(evidence, project, run_id, facts.seals.get(run_id))
    ]


def _has_looked(evidence: Evidence, project: str, run_id: str, seal: dict[str, Any] | None) -> bool:
    """By its seal, which outlives the files; a run that goes on or could not be read counts if it may have looked."""
    if seal is not None and seal["digests"]:
        return bool(TRACES & seal["digests"].keys())
    folder = evidence.workspace.run_directory(project, run_id).path
    return seal is not None or any((folder / trace).exists() for trace in TRACES)


def _fingerprint(evidence: Evidence, look: Look) -> str | None:
    try:
        data = evidence.workspace.run_directory(look.project, look.run).evidence("data") or {}
    except TrainwrightError:  # a damaged record; `verify` names it
        return None
    found = data.get("splits", {}).get("test", {}).get("fingerprint")
    return str(found) if found else None
