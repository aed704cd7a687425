"""Findings in a run's data as signals: leaks and improbable labels, by the validation that the run or its plan made."""

from __future__ import annotations

from trainwright.tools.training_monitor.record import RunRecord
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.data.validation.report import Verdict
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.run.conditions import Sample
from trainwright.trainer.run.validation import Validation

MAX_NAMED = 3


def leaks_found(record: RunRecord) -> list[Sample]:
    """How many leaks validation found, of severity warning or error; not measured where nothing was validated."""
    found = leaks(record)
    if not found:
        return []
    named = "; ".join(f"{one.place}: {one.text.rstrip('.')}" for one in found[:MAX_NAMED])
    return [Sample(record.status.step, len(found), detail=named)]


def leaks(record: RunRecord) -> list[Verdict]:
    """Return the leaks that validation found, the gravest first; none where the run is the one without a leak."""
    if record.specification.kind is RunKind.LEAK_PRICE:
        return []
    return [one for one in _failed(record) if one.family == "leaks" and one.severity != "info"]


def improbable_labels(record: RunRecord) -> list[Sample]:
    """Share of the train labels that a model of the other rows finds improbable."""
    found = [one for one in _failed(record) if one.family == "label_errors"]
    return [
        Sample(record.status.step, float(one.value), detail=f"rows {', '.join(map(str, one.rows[:10]))}, from 0")
        for one in found[:1]
        if isinstance(one.value, int | float)
    ]


def _failed(record: RunRecord) -> list[Verdict]:
    validation = record.part(Validation)
    if validation.known_from is not None:
        beside = RunDirectory(record.run.path.parent / validation.known_from)
        try:
            validation = Validation.model_validate(beside.evidence(Validation.file) or {})
        except (TrainwrightError, ValueError):  # `verify` names the change
            return []
    return validation.report.worst_first()
