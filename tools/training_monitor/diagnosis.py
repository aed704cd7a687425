"""Diagnosis of a run: the documents whose triggers hold. A pure function of run directory and documents."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from trainwright.tools.training_monitor.documents import DOCUMENTS, load_diagnostics
from trainwright.tools.training_monitor.fixes import Fix, compute_fixes
from trainwright.tools.training_monitor.record import RunRecord, Sample, mean
from trainwright.tools.training_monitor.signals import SIGNALS
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.training_monitor.documents import Condition, Diagnostic, Trigger
    from trainwright.trainer.run import RunDirectory

SEVERITIES = ("critical", "warning", "info")


class Alert(BaseModel):
    """One finding of the monitor, with the measured value beside the allowed one."""

    model_config = ConfigDict(frozen=True)

    id: str
    severity: Literal["critical", "warning", "info"]
    title: str
    message: str
    signal: str
    measured: float | None
    """None when the value is not finite."""
    threshold: float
    unit: str
    step: int
    epoch: int | None = None
    document: str
    """Path of the document that explains it, relative to `skills/ml-trainer/`."""
    requirement: str
    fixes: list[Fix]


def diagnose(run: RunDirectory, documents: Path = DOCUMENTS) -> list[Alert]:
    """Return the run's alerts, the most severe first. Works at any moment of a run's life.

    Raises:
        IntegrityError: the run's record is damaged; the remedy says what to do.
        ConfigurationError: a diagnostic document is not valid.
    """
    return diagnose_record(RunRecord(run), load_diagnostics(documents))


def diagnose_record(record: RunRecord, diagnostics: list[Diagnostic]) -> list[Alert]:
    """Return the alerts of a run that is already open. A run without training has none."""
    if record.specification.kind is RunKind.EXPORT or _measured_only(record):
        return []
    with record.metrics.reading():
        alerts = [alert for diagnostic in diagnostics if (alert := _alert(record, diagnostic)) is not None]
    return sorted(alerts, key=lambda alert: (SEVERITIES.index(alert.severity), alert.requirement, alert.id))


def _measured_only(record: RunRecord) -> bool:
    """Whether it is a probe that ended in order: it takes steps to measure them, and throws them away."""
    return record.specification.kind is RunKind.PROBE and record.status.failure is None


def _alert(record: RunRecord, diagnostic: Diagnostic) -> Alert | None:
    for trigger in diagnostic.triggers:
        found = _evaluate(record, trigger)
        if found and all(_evaluate(record, condition) for condition in trigger.only_if):
            return _describe(record, diagnostic, trigger, found)
    return None


def _evaluate(record: RunRecord, condition: Condition) -> list[Sample]:
    """Return the samples that are past the threshold (for a statistic: one that carries it), or none."""
    samples = SIGNALS[condition.signal](record)[-condition.window :]
    if condition.statistic == "each":
        past = [sample for sample in samples if condition.holds(sample.value)]
        return past if len(past) >= condition.points else []
    values = [sample.value for sample in samples if math.isfinite(sample.value)]
    if len(values) < condition.points:
        return []
    value = mean(values) if condition.statistic == "mean" else statistics.median(values)
    return [samples[-1]._replace(value=value)] if condition.holds(value) else []


def _describe(record: RunRecord, diagnostic: Diagnostic, trigger: Trigger, past: list[Sample]) -> Alert:
    rising = trigger.comparison in {"above", "at_least"}
    worst = max(past, key=lambda sample: _order(sample.value) if rising else -_order(sample.value))
    epoch = worst.epoch if worst.epoch is not None else _epoch_of(record, worst.step)
    harm = next(((harm, lost) for harm in trigger.critical_if if (lost := _evaluate(record, harm))), None)
    message = _filled(trigger, trigger.message, worst, len(past), epoch)
    if harm is not None:
        message = f"{message} {_filled(harm[0], harm[0].message, harm[1][-1], len(harm[1]), epoch)}"
    return Alert(
        id=diagnostic.id,
        severity=diagnostic.severity if harm is None else "critical",
        title=diagnostic.title,
        message=" ".join(message.split()),
        signal=trigger.signal,
        measured=worst.value if math.isfinite(worst.value) else None,
        threshold=trigger.threshold,
        unit=trigger.unit,
        step=worst.step,
        epoch=epoch,
        document=diagnostic.path,
        requirement=diagnostic.requirement,
        fixes=compute_fixes(diagnostic, record, worst.keys),
    )


def _filled(condition: Condition, message: str, sample: Sample, count: int, epoch: int | None) -> str:
    return message.format(
        measured=sample.value,
        threshold=condition.threshold,
        count=count,
        window=condition.window,
        step=sample.step,
        epoch=epoch if epoch is not None else "?",
        detail=sample.detail,
    )


def _epoch_of(record: RunRecord, step: int) -> int | None:
    """The epoch of a step: the first that ends at or after it, or the one under way."""
    ends = sorted(record.epoch_at)
    after = [end for end in ends if end >= step]
    if after:
        return record.epoch_at[after[0]]
    return record.epoch_at[ends[-1]] + 1 if ends else None


def _order(value: float) -> float:
    return math.inf if math.isnan(value) else value
