"""Looks at runs for alerts, at the price of what is new: the worker's are read from where the last look ended.

All others take a diagnosis, which is made only when something was recorded, and takes a small share of the time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from trainwright.tools.alerts.life import file_alerts
from trainwright.tools.alerts.stopping import Standing, stop_for
from trainwright.tools.training_monitor import Alert, Diagnostic, load_diagnostics
from trainwright.tools.training_monitor.diagnosis import diagnose_record
from trainwright.tools.training_monitor.fixes import compute_fixes
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.file_stamps import stamp_of
from trainwright.trainer.run import RunDirectory, RunState, RunStatus
from trainwright.trainer.run.conditions import SERVER
from trainwright.trainer.run.digests import METRICS
from trainwright.trainer.run.directory import EVENTS
from trainwright.trainer.run.status import Event

MIN_SECONDS = 1.0
"""Between two diagnoses of a living run that raises nothing by itself."""
REST = 20
"""A diagnosis that took long is followed by a pause of so many times its time: a twentieth of one core at most."""
log = logging.getLogger("trainwright")


@dataclass
class _Run:
    """What this process has seen of one run."""

    lock: Lock = field(default_factory=Lock)
    seen: Hashable = None
    due: float = 0.0
    read: int = 0
    """Bytes of the events that were read."""
    raised: dict[str, Event] = field(default_factory=dict)
    """The worker's alerts that it has not cleared."""
    since: dict[tuple[str, str], float] | None = None
    """When each alert of the last look was first found as grave (id, severity); None before the first look."""
    stopped_for: set[str] = field(default_factory=set)
    """Alerts that a follower found, and for which the worker ended an attempt."""
    problem: str = ""


_RUNS: WeakKeyDictionary[Workspace, dict[str, _Run]] = WeakKeyDictionary()
_LOCK = Lock()


def look(workspace: Workspace, run: Run, status: RunStatus) -> None:
    """File what has arisen on a run since this process looked last. Cheap where nothing was recorded; never raises.

    Args:
        status: of the run, as it was read just now.
    """
    with _LOCK:
        known = _RUNS.setdefault(workspace, {}).setdefault(run.id, _Run())
    if not known.lock.acquire(blocking=status.state.is_ended):
        return  # another thread of this process looks at it now
    try:
        _look(workspace, run, status, known)
        known.problem = ""
    except (TrainwrightError, OSError) as error:  # the answer about the run reports it
        if known.problem != str(error):
            log.warning("the alerts of %s are not known: %s", run.id, error)
        known.problem = str(error)
    finally:
        known.lock.release()


def _look(workspace: Workspace, run: Run, status: RunStatus, known: _Run) -> None:
    directory = workspace.run_directory(run.project, run.id)
    files = [str(directory.path / name) for name in (METRICS, f"{METRICS}-wal", EVENTS)]
    seen = (status.state.is_ended, status.attempt, *map(stamp_of, files))
    if seen == known.seen:
        return
    arose = _read_events(directory, known)
    began = time.monotonic()
    if began < known.due and not (arose or status.state.is_ended):
        return
    found = _alerts(directory, known.raised)
    if status.state is RunState.RUNNING:  # before they are filed: what was filed by an earlier look has stood meanwhile
        stop_for(workspace, run, Standing(status, found, known.raised.values(), known.stopped_for, known.since))
    now = time.time()
    known.since = {of: (known.since or {}).get(of, now) for of in ((alert.id, alert.severity) for alert in found)}
    file_alerts(workspace, run, found, status if status.state is RunState.COMPLETED else None)
    taken = time.monotonic() - began
    known.seen, known.due = seen, time.monotonic() + max(MIN_SECONDS, REST * taken)


def _read_events(directory: RunDirectory, known: _Run) -> bool:
    """Read what was appended to the events; return whether the worker raised or cleared an alert."""
    try:
        with (directory.path / EVENTS).open("rb") as file:
            file.seek(known.read)
            text, _, _ = file.read().rpartition(b"\n")
    except FileNotFoundError:
        return False
    known.read += len(text) + 1 if text else 0
    arose = False
    for line in text.split(b"\n"):
        event = _event(line)
        if event is None:
            continue
        arose = True
        if event.data.get("found_by") == SERVER:
            known.stopped_for |= {event.data["id"], *event.data.get("because_of", [])}
        elif event.kind == "alert":
            known.raised[event.data["id"]] = event
        else:
            known.raised.pop(event.data["id"], None)
    return arose


def _event(line: bytes) -> Event | None:
    """Return an event of those that matter here; the rest are not even parsed."""
    if b'"alert' not in line:
        return None
    try:
        event = Event.model_validate_json(line)
    except ValueError:
        return None
    is_alert = event.kind in {"alert", "alert_cleared"} and isinstance(event.data.get("id"), str)
    return event if is_alert else None


def _alerts(directory: RunDirectory, raised: dict[str, Event]) -> list[Alert]:
    """Return the alerts that the documents find, and those that the worker found beside them."""
    diagnostics, record = load_diagnostics(), RunRecord(directory)
    found = diagnose_record(record, diagnostics)
    present, known = {alert.id for alert in found}, {diagnostic.id: diagnostic for diagnostic in diagnostics}
    names = [name for name in raised if name in known and name not in present]
    return [*found, *(_reported(record, raised[name], known[name]) for name in names)]


def _reported(record: RunRecord, event: Event, diagnostic: Diagnostic) -> Alert:
    """Return the alert of a worker's event, in the words of the event or of its document."""
    data = event.data
    severity = data["severity"] if data.get("severity") in {"critical", "warning", "info"} else diagnostic.severity
    named = [trigger for trigger in diagnostic.triggers if trigger.signal == data.get("signal")]
    trigger = (named or diagnostic.triggers)[0]
    measured, step = _number(data.get("measured")), data.get("step")
    told = f"{diagnostic.title}: {trigger.signal} {measured}; {trigger.comparison} {trigger.threshold:g} raises it."
    return Alert(
        id=diagnostic.id,
        severity=severity,
        title=diagnostic.title,
        message=" ".join(str(data.get("message") or data.get("detail") or told).split()),
        signal=trigger.signal,
        measured=measured,
        threshold=_number(data.get("threshold")) or trigger.threshold,
        unit=trigger.unit,
        step=step if isinstance(step, int) else 0,
        epoch=data["epoch"] if isinstance(data.get("epoch"), int) else None,
        document=diagnostic.path,
        requirement=diagnostic.requirement,
        fixes=compute_fixes(diagnostic, record, measured=measured),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value - value == 0 else None
