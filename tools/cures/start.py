"""Beginning a trial of fixes: permitted, with room under the limits, recorded, and then carried on by a process."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from trainwright.tools import ledger, limits
from trainwright.tools.gates import permits
from trainwright.tools.gates.cures import ENDED, RUNNING, STOPPED, cure_of, runs_of_cure
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.trying import fixes_to_try
from trainwright.tools.hyperparameter_tuner.process import MAX_LAUNCHES, conductor_lock, environment_of
from trainwright.tools.launchers import Launch, jobs
from trainwright.tools.ledger.events import CureChanged
from trainwright.tools.training_monitor import Alert, Goal, load_diagnostics
from trainwright.tools.training_monitor.not_evaluated import epochs_needed
from trainwright.tools.training_monitor.report import Glance, glance
from trainwright.tools.training_orchestrator.launch import new_id
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import now
from trainwright.tools.workspace.workspace import checked_name
from trainwright.trainer.base.errors import ConflictError, LimitReachedError, NotFoundError, TrainwrightError
from trainwright.trainer.run import RunKind

NAME = "fixes"
"""Begins a trial's id, as a kind begins a run's."""
BEGIN_SECONDS, POLL_SECONDS = 10.0, 0.1
"""How long a start waits for the first run's id, so that its answer can name it."""


def try_fixes(workspace: Workspace, project: str, run_id: str, fix: str = "try") -> None:
    """Begin to try the fixes of a run's first alert and return soon; a trial that is under way is left alone.

    Args:
        fix: `try`, or the id of one fix.

    Raises:
        NotFoundError, ConflictError: there is no such fix, or nothing left to try.
        GateRefusedError, LimitReachedError: no run may start now.
    """
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project)
        known, run = cure_of(evidence, run_id), evidence.run(run_id)
        assert run is not None  # noqa: S101 - the caller found it
        if known is None or known.state != RUNNING:
            try:
                known = _begun(evidence, run, fix)
            except ConflictError:
                if known is not None and known.state == ENDED:
                    return  # its result is the answer
                raise
            ledger.record(session, project, known)
    ensure_conductor(workspace, project, known.cure_id)
    _wait_for_a_run(workspace, project, known.cure_id)


def ensure_tried(workspace: Workspace, project: str, run_id: str) -> None:
    """Bring back the process of a trial of this run that is under way."""
    with workspace.session() as session:
        known = cure_of(Evidence(session, workspace, project), run_id)
    if known is not None and known.state == RUNNING:
        ensure_conductor(workspace, project, known.cure_id)


def _begun(evidence: Evidence, run: RunEvidence, fix: str) -> CureChanged:
    """Return the entry that begins a trial, once it is known to be permitted."""
    seen = glance(run.directory, Goal.model_validate(evidence.project.goal))
    alert, fixes = chosen(evidence, run, seen, fix)
    permits.permit(evidence, RunKind.CURE)
    config = run.directory.specification().config
    try:
        limits.reserve(evidence.session, evidence.workspace, evidence.project, RunKind.CURE, config)
    except LimitReachedError as error:
        if not error.details.get("waits"):  # else there is room when the runs under way have ended
            raise
    return CureChanged(
        cure_id=new_id(NAME, evidence.name),
        state=RUNNING,
        run_id=run.id,
        alert=alert.id,
        config_digest=run.row.config_digest,
        steps=steps_to_show(run, alert, _epochs_of(alert)),
        fixes=fixes,
        created_at=now(),
    )


def _epochs_of(alert: Alert) -> int:
    """Return how many epochs the alert's signal needs."""
    documents = (one for one in load_diagnostics() if one.id == alert.id)
    triggers = [trigger for one in documents for trigger in one.triggers if trigger.signal == alert.signal]
    return max((epochs_needed(one) for trigger in triggers for one in (trigger, *trigger.only_if)), default=0)


def _wait_for_a_run(workspace: Workspace, project: str, cure_id: str) -> None:
    """Wait until the trial has a run, or its process has ended it."""
    deadline = time.monotonic() + BEGIN_SECONDS
    while time.monotonic() < deadline:
        with workspace.session() as session:
            evidence = Evidence(session, workspace, project)
            if runs_of_cure(evidence.facts, cure_id) or _state(evidence, cure_id) != RUNNING:
                return
        time.sleep(POLL_SECONDS)


def _state(evidence: Evidence, cure_id: str) -> str:
    bodies = [body for _, body in evidence.entries(CureChanged.name) if body.get("cure_id") == cure_id]
    return str(bodies[-1].get("state")) if bodies else ""


# Choice of what to try: the alert, and how many steps show its fixes.

LONGER = 1.5
"""A pair runs so many times the steps after which the alert arose."""
MIN_STEPS = 20


def chosen(evidence: Evidence, run: RunEvidence, seen: Glance, fix: str) -> tuple[Alert, list[dict[str, Any]]]:
    """Return the first alert, its cause before its consequences, with fixes to try.

    Args:
        fix: `try` for all of them, or the id of one.

    Raises:
        NotFoundError: no alert of the run has a fix of this id.
        ConflictError: nothing is left that a short run can show.
    """
    alerts = _to_cure(seen.assessment.alerts)
    known = [one.id for alert in alerts for one in alert.fixes if one.changes]
    if fix != "try" and fix not in known:
        raise NotFoundError(
            f"No alert of {run.id} has a fix {fix!r} that the configuration can make.",
            remedy=f"Fixes: {', '.join(known) or 'none'}; diagnose_run(run_id='{run.id}') lists them with their calls.",
        )
    for alert in alerts:
        found = [one for one in fixes_to_try(evidence, run, alert.model_dump(mode="json")) if fix in {"try", one["id"]}]
        if found:
            return alert, found
    raise ConflictError(
        f"Nothing is left to try for {run.id}: {_ground(alerts)}.",
        remedy=f"diagnose_run(run_id='{run.id}') names what was tried, what is left, and who decides.",
        document="diagnostics/README.md",
    )


def _to_cure(alerts: list[Alert]) -> list[Alert]:
    """Return the alerts whose fixes count: of a consequence only where its cause has none that a change can make."""
    open_now = [alert for alert in alerts if alert.severity != "info"]
    curable = {alert.id for alert in open_now if any(fix.changes for fix in alert.fixes)}
    return [alert for alert in open_now if alert.consequence_of not in curable]


def steps_to_show(run: RunEvidence, alert: Alert, epochs_needed: int) -> int:
    """Return for how many steps a pair runs: half as many again as the alert took to arise, in whole epochs.

    Args:
        epochs_needed: epochs that the alert's signal needs.
    """
    status, per_epoch = run.status, run.resolved.steps_per_epoch or 0
    events = [event.data for event in run.directory.events("alert") if event.data.get("id") == alert.id]
    noted = [step for data in events if isinstance(step := data.get("step"), int)]
    arose = min(noted) if noted else max(alert.step, epochs_needed * per_epoch)
    steps = max(math.ceil(LONGER * arose), MIN_STEPS)
    if per_epoch and arose >= per_epoch:
        steps = math.ceil(steps / per_epoch) * per_epoch
    total = run.resolved.total_steps or status.total_steps
    return min(steps, total) if total else steps


def _ground(alerts: list[Alert]) -> str:
    if not alerts:
        return "it has no alert"
    return f"{', '.join(alert.id for alert in alerts)} have no untried fix that a short run can show"


# The process that carries a trial of fixes through: its folder, and starting it where there is none.

CONDUCTOR = "trainwright.tools.cures.conductor"
LOST = "The trial of fixes lost its process too often."


def cure_folder(workspace: Workspace, project: str, cure_id: str) -> Path:
    """Return the trial's folder."""
    return workspace.project_folder(project) / "cures" / checked_name(cure_id)


def ensure_conductor(workspace: Workspace, project: str, cure_id: str) -> None:
    """Start the trial's process if it has none; a trial that lost too many of them is stopped."""

    def following(session: Session, last: Launch | None) -> Launch | None:
        lost = last.attempt if last is not None else 0
        if lost < MAX_LAUNCHES:
            return Launch(attempt=lost + 1)
        failure = TrainwrightError(LOST, remedy="`trainwright doctor` checks the machine; try again.").as_dict()
        ended = CureChanged(cure_id=cure_id, state=STOPPED, failure=failure, ended_at=now())
        ledger.record(session, project, ended)
        return None

    jobs.ensure(
        conductor_lock(cure_folder(workspace, project, cure_id)), CONDUCTOR, project, cure_id,
        cwd=workspace.path, env=environment_of(workspace), alone=workspace.session(), following=following,
    )  # fmt: skip
