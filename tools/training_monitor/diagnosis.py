"""Diagnosis of a run: the documents whose triggers hold. A pure function of run directory and documents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from trainwright.tools.training_monitor.documents import DOCUMENTS, Diagnostic, load_diagnostics
from trainwright.tools.training_monitor.fixes import Fix, compute_fixes, directions
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.tools.training_monitor.signals import OF_PROBES, read_signal
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.run.conditions import Raised, Severity, raised
from trainwright.trainer.run.layers import layers_behind

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")


class Alert(Frozen):
    """One finding of the monitor, with the measured value beside the allowed one."""

    id: str
    severity: Severity
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
    layers: list[str] = Field(default_factory=list)
    """Parameters or modules that it is about, at most ten."""
    rows: list[int] = Field(default_factory=list)
    """Rows of the train split that it is about, at most twenty."""
    consequence_of: str | None = None
    """Id of the alert that explains this one; None: it stands for itself."""
    by_itself: Severity | None = None
    """Its severity without its consequences, where one of them made it graver."""


def diagnose(run: RunDirectory, documents: Path = DOCUMENTS) -> list[Alert]:
    """Return the run's alerts, the most severe causes first, each followed by its consequences.

    Works at any moment of a run's life.

    Raises:
        IntegrityError: the run's record is damaged; the remedy says what to do.
        ConfigurationError: a diagnostic document is not valid.
    """
    return diagnose_record(RunRecord(run), load_diagnostics(documents))


def diagnose_record(record: RunRecord, diagnostics: list[Diagnostic]) -> list[Alert]:
    """Return the alerts of a run that is already open. One without training has none, but for what a probe measured."""
    if record.specification.kind is RunKind.EXPORT:
        return []
    if _measured_only(record):
        diagnostics = [one for one in diagnostics if any(trigger.signal in OF_PROBES for trigger in one.triggers)]
    with record.metrics.reading():
        alerts = [alert for diagnostic in diagnostics if (alert := _alert(record, diagnostic)) is not None]
    alerts = ranked(alerts, {diagnostic.id: diagnostic.explains for diagnostic in diagnostics})
    alerts = without_keys(alerts, {diagnostic.id for diagnostic in diagnostics if diagnostic.beyond_keys})
    return in_one_direction(alerts, record.config.model_dump(mode="json"))


def without_keys(alerts: list[Alert], beyond: set[str]) -> list[Alert]:
    """Return alerts without the changes for what follows from a cause of `beyond`, which no key cures; hints stay."""
    hints = {one.id: [fix for fix in one.fixes if not fix.changes] for one in alerts if one.consequence_of in beyond}
    return [one.model_copy(update={"fixes": hints[one.id]}) if one.id in hints else one for one in alerts]


def in_one_direction(alerts: list[Alert], values: dict[str, Any]) -> list[Alert]:
    """Return alerts without the fixes that would move a key against an earlier alert's: the first cause decides."""
    decided: dict[str, bool] = {}
    found = []
    for alert in alerts:
        moves = {fix.id: directions(fix.changes, values) for fix in alert.fixes}
        kept = [fix for fix in alert.fixes if all(decided.get(k, up) is up for k, up in moves[fix.id].items())]
        for fix in kept if alert.severity != "info" else []:
            for key, up in moves[fix.id].items():
                decided.setdefault(key, up)
        found.append(alert if len(kept) == len(alert.fixes) else alert.model_copy(update={"fixes": kept}))
    return found


def ranked(alerts: list[Alert], explains: Mapping[str, list[str]]) -> list[Alert]:
    """Return alerts with the causes first, by severity, each followed by what it explains.

    A cause is as severe as its severest consequence. What is only information explains nothing.
    """
    known = {alert.id: alert for alert in alerts}
    cause_of = {name: _cause(name, known, explains) for name in known}
    worst: dict[str, Severity] = {
        name: min((one.severity for one in alerts if cause_of[one.id] == name), key=SEVERITIES.index, default="info")
        for name in known
    }

    def place(alert: Alert) -> tuple[object, ...]:
        cause = known[cause_of[alert.id]]
        rank = SEVERITIES.index(worst[cause.id]), cause.requirement, cause.id
        return (*rank, alert.id != cause.id, SEVERITIES.index(alert.severity), alert.id)

    return [
        _graver(one, worst[one.id])
        if cause_of[one.id] == one.id
        else one.model_copy(update={"consequence_of": cause_of[one.id]})
        for one in sorted(alerts, key=place)
    ]


def _graver(alert: Alert, severity: Severity) -> Alert:
    changed = {} if severity == alert.severity else {"severity": severity, "by_itself": alert.severity}
    return alert.model_copy(update=changed)


def _cause(name: str, alerts: Mapping[str, Alert], explains: Mapping[str, list[str]]) -> str:
    """Return the id of the alert that an alert follows from in the end; its own where nothing explains it."""
    for one in alerts.values():
        if one.severity != "info" and name in explains.get(one.id, ()):
            return _cause(one.id, alerts, explains)
    return name


def _measured_only(record: RunRecord) -> bool:
    """Whether it is a probe that ended in order: it takes steps to measure them, and throws them away."""
    return record.specification.kind is RunKind.PROBE and record.status.failure is None


def _alert(record: RunRecord, diagnostic: Diagnostic) -> Alert | None:
    chosen = record.specification.chosen
    found = raised(diagnostic.triggers, lambda name: read_signal(record, name, diagnostic.id), chosen)
    return None if found is None else _describe(record, diagnostic, found)


def _describe(record: RunRecord, diagnostic: Diagnostic, found: Raised) -> Alert:
    worst = found.worst
    is_first_unit = found.trigger.unit == diagnostic.triggers[0].unit  # what a fix brings to a value is that
    epoch = worst.epoch if worst.epoch is not None else _epoch_of(record, worst.step)
    return Alert(
        id=diagnostic.id,
        severity=found.severity(diagnostic.severity),
        title=diagnostic.title,
        message=found.message(epoch),
        signal=found.trigger.signal,
        measured=worst.value if math.isfinite(worst.value) else None,
        threshold=found.trigger.threshold,
        unit=found.trigger.unit,
        step=worst.step,
        epoch=epoch,
        document=diagnostic.path,
        requirement=diagnostic.requirement,
        fixes=compute_fixes(diagnostic, record, worst.keys, worst.value if is_first_unit else None),
        layers=list(worst.layers or layers_behind(record.metrics, found.trigger, worst.step)),
        rows=list(worst.rows),
    )


def _epoch_of(record: RunRecord, step: int) -> int | None:
    """The epoch of a step: the first that ends at or after it, or the one under way."""
    ends = sorted(record.epoch_at)
    after = [end for end in ends if end >= step]
    if after:
        return record.epoch_at[after[0]]
    return record.epoch_at[ends[-1]] + 1 if ends else None
