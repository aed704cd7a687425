"""Expectations of a project's data: changes since planning's smoke run, and loosened ones before it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.validation.changes import changes, loosened
from trainwright.trainer.data.validation.expectations import read_expectations
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.validation import Validation

if TYPE_CHECKING:
    from trainwright.tools.gates.records import Records, RunRecords

MOST_NAMED = 5


def expectation_changes(evidence: Records, smoke: RunRecords) -> list[str]:
    """Return one sentence for every expectation that changed since a smoke run held the data to it."""
    found = smoke.part(Validation)
    if not found or not evidence.has_valid_config or evidence.config.task is not None:
        return []
    now = _present(evidence)
    if now is None:  # gone or unreadable: the files' digests say so
        return []
    told = changes(found.report.expectations, now)
    return told[:MOST_NAMED] + ([f"{len(told) - MOST_NAMED} more expectations"] if len(told) > MOST_NAMED else [])


def loosened_before(evidence: Records, smoke: RunRecords) -> list[str]:
    """Return what a smoke run's expectations allow that those of the smoke run before it did not."""
    ids = [run_id for run_id, start in evidence.facts.started.items() if start.kind == RunKind.SMOKE]
    before = ids[: ids.index(smoke.id)] if smoke.id in ids else []
    earlier = evidence.run(before[-1]) if before else None
    record = earlier.part(Validation) if earlier is not None else None
    return loosened(record.report.expectations, smoke.part(Validation).report.expectations) if record else []


def _present(evidence: Records) -> dict[str, Any] | None:
    section = evidence.config.data
    try:
        return read_expectations(section.expectations if section else None, Path(evidence.project.code_root)).values()
    except ConfigurationError:
        return None
