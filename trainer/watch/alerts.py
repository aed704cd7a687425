"""Alerts of the worker: the documents' conditions, evaluated while it trains, and what an alert does.

An alert is an event the moment its condition holds, and once until it is cleared or the run is resumed. A resumed run
reports again what still holds, and does not stop again on it. Those that only the server can judge come as a request
to stop; they are recorded here, with `found_by`, and stop a run once.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from trainwright.trainer.base.errors import AlertError
from trainwright.trainer.engine.observers.observer import EpochResult, Observer, StepResult
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.engine.session import Session
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.conditions import (
    CROSS_ENTROPY,
    NOT_ADAPTIVE,
    REASON,
    SERVER,
    AlertStop,
    Raised,
    Watched,
    finding_sample,
    raised,
    requested_alert_stop,
)
from trainwright.trainer.run.layers import layers_behind
from trainwright.trainer.watch.signals import Series

SHARE = 0.002
"""Of the time, that evaluating may take; a finding is evaluated at once."""
MAX_EVENTS = 20
"""A warning that comes and goes is reported so often, and then no more."""
REPEATING = frozenset({RunKind.REPLAY})
"""Kinds that go as far as their source did, whatever is found."""


class Alerts(Observer):
    """Comes after the recorder, whose numbers it evaluates, and before the checkpoints."""

    def __init__(self, session: Session, recorder: Recorder) -> None:
        self.session, self.recorder = session, recorder
        self.watched: list[Watched] = session.specification.watch
        longest = [condition.window for each in self.watched for t in each.triggers for condition in (t, *t.only_if)]
        batch = session.train_loader.batch_size
        self.series = Series(
            recorder.store, max(longest, default=1),
            batch=batch and batch * session.config.training.accumulation_steps,
            is_adaptive=session.config.optimizer.name not in NOT_ADAPTIVE,
            judges_losses=not session.rule.is_users, class_shares=_class_shares(session),
        )  # fmt: skip
        self.open: dict[str, str] = {}
        """Severity of each open alert of this attempt by its id."""
        self.before: dict[str, str] = {}
        """Those that were open when the attempt before ended, and have not been cleared since."""
        self.standing: set[str] = set()
        """Whose newest event is the alert, of whatever attempt: it is to be cleared."""
        self.spent: set[str] = set()
        """On which an earlier attempt was ended by the server's request, or as failed: they stop this run no more."""
        self.raised: Counter[str] = Counter()
        self.is_new = False
        """Whether something was found since the conditions were evaluated."""
        self.evaluated_at = time.monotonic()
        self.seconds = 0.0
        """What the newest evaluation took."""

    def start(self, session: Session) -> None:
        """Continue with the findings and open alerts of earlier attempts."""
        for event in session.run.events():
            name = str(event.data.get("id"))
            if event.kind == "finding":
                self.found(event.data)
            elif event.kind == "failed" and event.data.get("category") == AlertError.category:
                self.spent.add(str(event.data.get("details", {}).get("id")))
            elif event.kind == "alert" and event.data.get("found_by") == SERVER:
                self.spent |= {name, *event.data.get("because_of", [])}
            elif event.kind == "alert":
                self.before[name] = str(event.data.get("severity"))
                self.raised[name] += 1
                self.standing.add(name)
            elif event.kind == "alert_cleared":
                self.before.pop(name, None)
                self.standing.discard(name)

    def found(self, finding: Mapping[str, Any]) -> None:
        """Take what a `finding` event says."""
        name = str(finding["id"])
        if (sample := finding_sample(finding, name)) is not None:
            self.series.findings.setdefault(name, []).append(sample)
            self.is_new = True

    def step(self, session: Session, result: StepResult) -> None:
        """Evaluate where something was found, or time has passed. Raises AlertError."""
        if self.is_new or (result.step % session.config.logging.every_n_steps == 0 and self._is_time()):
            self.evaluate()

    def epoch(self, session: Session, result: EpochResult) -> None:  # noqa: ARG002 - the moment's form
        """Evaluate with the epoch's values, unless epochs take no time. Raises AlertError."""
        if self.is_new or self._is_time():
            self.evaluate()

    def _is_time(self) -> bool:
        return time.monotonic() - self.evaluated_at > self.seconds / SHARE

    def stop(self, session: Session, reason: str) -> None:
        """Evaluate the last steps, and record the alert for which the server requested the end."""
        self.evaluate(acts=False)
        if (request := request_behind(session, reason)) is not None:
            session.run.append_event("alert", found_by=SERVER, **request.model_dump(exclude={"does", "remedy"}))

    def evaluate(self, *, acts: bool = True) -> None:
        """Report alerts that are raised or cleared, and do what is configured. Raises AlertError."""
        began, self.is_new = time.monotonic(), False
        self.recorder.flush()
        with self.series.reading():
            new = [(watched, found) for watched in self.watched if (found := self._newly_raised(watched)) is not None]
        self.evaluated_at = time.monotonic()
        self.seconds = self.evaluated_at - began
        for watched, found in new:
            self._report(watched, found)
        if acts and self.session.specification.kind not in REPEATING:
            for watched, found in new:
                is_known = self.before.get(watched.id) in {severity_of(watched, found), "critical"}
                if not is_known and watched.id not in self.spent:
                    self._act(watched, found)

    def _newly_raised(self, watched: Watched) -> Raised | None:
        found = raised(watched.triggers, lambda name: self.series.read(name, watched.id))
        if found is None:
            self.before.pop(watched.id, None)
            self.open.pop(watched.id, None)
            if watched.id in self.standing:  # one that was not reported any more is not cleared either
                self.standing.discard(watched.id)
                self.session.run.append_event("alert_cleared", id=watched.id, step=self.session.progress.step)
            return None
        severity = severity_of(watched, found)
        known, self.open[watched.id] = self.open.get(watched.id), severity
        is_quiet = self.raised[watched.id] >= MAX_EVENTS and severity != "critical"
        return found if known not in {severity, "critical"} and not is_quiet else None

    def _report(self, watched: Watched, found: Raised) -> None:
        self.raised[watched.id] += 1
        self.standing.add(watched.id)
        worst, layers = found.worst, self._layers(found)
        self.session.run.append_event(
            "alert",
            id=watched.id,
            severity=severity_of(watched, found),
            message=found.message(self._epoch_of(found)),
            signal=found.trigger.signal,
            measured=worst.value if math.isfinite(worst.value) else None,
            threshold=found.trigger.threshold,
            step=worst.step,
            epoch=self._epoch_of(found),
            layers=list(layers),
            rows=list(worst.rows),
            document=watched.document,
        )

    def _layers(self, found: Raised) -> tuple[str, ...]:
        if found.worst.layers:
            return found.worst.layers
        return layers_behind(self.recorder.store, found.trigger, found.worst.step)

    def _act(self, watched: Watched, found: Raised) -> None:
        severity, policy = severity_of(watched, found), self.session.config.monitoring
        does = {"critical": policy.on_critical, "warning": policy.on_warning}.get(severity, "tell")
        if does == "checkpoint":
            self.session.stop.ask(f"{REASON}{watched.id}")
        elif does == "stop":
            message, run_id = found.message(self._epoch_of(found)), self.session.run.run_id
            at = {"step": found.worst.step, "layers": list(self._layers(found)), "rows": list(found.worst.rows)}
            raise _stopped(run_id, watched.id, message, watched.remedy, watched.document, at)

    def _epoch_of(self, found: Raised) -> int:
        """The epoch, counted from 1, that the sample says, or that is under way or has just ended."""
        progress = self.session.progress
        return found.worst.epoch or progress.epoch + bool(progress.batch)


def _class_shares(session: Session) -> list[float]:
    """Return the train classes' shares where the loss is their cross entropy; empty of any other."""
    work, train = session.work, session.work.splits.records.get("train")
    counts = list((train.classes or {}).values()) if train is not None else []
    is_plain = work.loss is not None and work.loss.name == CROSS_ENTROPY and not (work.step or work.train_step)
    return [count / sum(counts) for count in counts if count] if is_plain and len(counts) > 1 else []


def severity_of(watched: Watched, found: Raised) -> str:
    """Return the severity of a trigger that holds."""
    return found.severity(watched.severity)


def request_behind(session: Session, reason: str) -> AlertStop | None:
    """Return the server's request that ended the present attempt for the reason; None where it was another."""
    attempt = session.run.last_status().attempt
    request = requested_alert_stop(session.run, attempt) if reason.startswith(REASON) else None
    return request if request is not None and request.reason == reason else None


def require_no_stop(session: Session, reason: str) -> None:
    """Raise AlertError where the server has requested the end, and the configuration lets such a run fail.

    All of the run is saved by now: once the owner accepts the alert, it can be resumed.
    """
    request = request_behind(session, reason)
    if request is not None and request.does == "stop":
        at = {**request.model_dump(include={"step", "layers", "rows"}), "found_by": SERVER}
        raise _stopped(session.run.run_id, request.id, request.message, request.remedy, request.document, at)


def _stopped(  # noqa: PLR0917 - all that is known of one alert
    run_id: str, name: str, message: str, remedy: str, document: str, at: dict[str, Any]
) -> AlertError:
    return AlertError(
        f"The critical alert {name} ended the run: {message}",
        remedy=f"{remedy} diagnose_run(run_id={run_id!r}) has all fixes as changes. To train on past such an "
        "alert: monitoring.on_critical tell.",
        document=document,
        details={"id": name, **at},
    )
