"""Stops of runs for alerts that only a look at the whole record finds, as the run's configuration has it.

The worker acts on what it finds itself. A stop for nothing costs more than one that is missed: so an alert must have
stood since an earlier look while the run went on, must have the configured severity, must not be accepted by the owner,
and stops a run once.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from trainwright.tools.alerts.life import rows_of
from trainwright.tools.owner.grants import accepted_alerts
from trainwright.tools.owner.requests import granted
from trainwright.tools.training_monitor import Alert, load_diagnostics
from trainwright.tools.training_monitor.record import STEP_LOSS
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.config.schema import MonitoringSection
from trainwright.trainer.run import Event, RunDirectory, RunKind, RunStatus
from trainwright.trainer.run.conditions import AlertStop, request_alert_stop

NEVER = frozenset({RunKind.REPLAY, RunKind.CURE, RunKind.PROBE, RunKind.EXPORT})
"""Kinds that go on whatever is found: they repeat or measure on purpose."""
MIN_STEPS = 20
"""That an alert must stand for: losses are judged by means of ten, and two of these know nothing of each other."""
log = logging.getLogger("trainwright")


class Standing(NamedTuple):
    """The alerts of a run that trains, as one look found them."""

    status: RunStatus
    found: Collection[Alert]
    raised: Iterable[Event]
    """The worker's own."""
    stopped_for: Collection[str]
    """Those for which a follower has stopped an earlier attempt."""
    since: Mapping[tuple[str, str], float] | None
    """When this process found each (id, severity) first, of those that its last look found; None: it is the first."""


def stop_for(workspace: Workspace, run: Run, standing: Standing) -> None:
    """Request the end of a run for the first alert that asks for it; any number of followers make one request.

    Raises OSError, and what reading the run's plan raises.
    """
    if workspace.is_archived or run.kind in NEVER:
        return
    directory = workspace.run_directory(run.project, run.id)
    attempt = standing.status.attempt
    policy = directory.specification().config.monitoring
    named = _asking(policy, standing)
    if not named or directory.alert_stop(attempt).exists():
        return
    for lead, because_of in named:
        if not _has_stood(workspace, run, directory, lead, standing) or _is_accepted(workspace, run, lead, because_of):
            continue
        if request_alert_stop(directory, attempt, _request(policy, lead, because_of)):
            log.info("%s: the end of attempt %d is requested for the alert %s", run.id, attempt, lead.id)
        return


def _asking(policy: MonitoringSection, standing: Standing) -> list[tuple[Alert, list[str]]]:
    """Return the alerts on which the configuration acts, each with the consequences that make it as grave.

    One that the worker has found as grave itself is the worker's to act on.
    """
    own = {(event.data["id"], event.data.get("severity")) for event in standing.raised}
    found = []
    for lead in standing.found:
        if lead.consequence_of is not None or _does(policy, lead) == "tell":
            continue
        group = [lead, *(one for one in standing.found if one.consequence_of == lead.id)]
        bearing = [one.id for one in group if (one.by_itself or one.severity) == lead.severity]
        is_workers = any((name, lead.severity) in own for name in bearing)
        if not is_workers and not {lead.id, *bearing} & {*standing.stopped_for}:
            found.append((lead, [name for name in bearing if name != lead.id]))
    return found


def _does(policy: MonitoringSection, alert: Alert) -> str:
    return {"critical": policy.on_critical, "warning": policy.on_warning}.get(alert.severity, "tell")


def _has_stood(workspace: Workspace, run: Run, directory: RunDirectory, alert: Alert, standing: Standing) -> bool:
    """Whether the look before found the alert as grave, and the run has made enough steps since it first was."""
    if standing.since is not None:
        since = standing.since.get((alert.id, alert.severity))
    else:  # by another process, which may have been killed
        with workspace.snapshot() as session:
            row = rows_of(session, run.id).get(alert.id)
        is_filed = row is not None and row.cleared_at is None and row.severity == alert.severity
        since = row.raised_at if row is not None and is_filed else None
    if since is None:
        return False
    steps = directory.metrics().tail(STEP_LOSS, MIN_STEPS)
    return len(steps) == MIN_STEPS and steps[0].time > since


def _is_accepted(workspace: Workspace, run: Run, lead: Alert, because_of: list[str]) -> bool:
    """Whether the owner accepts the alert, or all that makes it as grave."""
    with workspace.session() as session:
        accepted = accepted_alerts(request.grant for request in granted(session, workspace, run.project))
    return lead.id in accepted or (lead.by_itself is not None and {*because_of} <= accepted)


def _request(policy: MonitoringSection, lead: Alert, because_of: list[str]) -> AlertStop:
    remedy = next(one.fixes[0].text for one in load_diagnostics() if one.id == lead.id)
    parts = {"id", "severity", "message", "signal", "measured", "threshold", "step", "epoch", "layers", "rows"}
    return AlertStop.model_validate(
        {
            "does": _does(policy, lead),
            "because_of": because_of,
            "document": lead.document,
            "remedy": remedy,
            **lead.model_dump(include=parts),
        }
    )
