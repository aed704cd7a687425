"""Beginning a trial of fixes: permitted, with room under the limits, recorded, and then carried on by a process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from trainwright.tools import ledger, limits
from trainwright.tools.cures.choice import chosen, steps_to_show
from trainwright.tools.cures.process import ensure_conductor
from trainwright.tools.gates import permits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.paired import ENDED, RUNNING, STOPPED, cure_of, runs_of_cure
from trainwright.tools.ledger.events import CureChanged
from trainwright.tools.training_monitor import Goal, load_diagnostics
from trainwright.tools.training_monitor.glance import glance
from trainwright.tools.training_monitor.unjudged import epochs_needed
from trainwright.tools.training_orchestrator.launch import new_id
from trainwright.tools.workspace.tables import now
from trainwright.trainer.base.errors import ConflictError, LimitReachedError, TrainwrightError
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from trainwright.tools.gates.run_evidence import RunEvidence
    from trainwright.tools.training_monitor import Alert
    from trainwright.tools.workspace import Workspace

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
    if not ensure_conductor(workspace, project, known.cure_id):
        _lost(workspace, project, known.cure_id)
    _wait_for_a_run(workspace, project, known.cure_id)


def ensure_tried(workspace: Workspace, project: str, run_id: str) -> None:
    """Bring back the process of a trial of this run that is under way."""
    with workspace.session() as session:
        known = cure_of(Evidence(session, workspace, project), run_id)
    if known is not None and known.state == RUNNING and not ensure_conductor(workspace, project, known.cure_id):
        _lost(workspace, project, known.cure_id)


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


def _lost(workspace: Workspace, project: str, cure_id: str) -> None:
    failure: dict[str, Any] = TrainwrightError(
        "The trial of fixes lost its process too often.", remedy="`trainwright doctor` checks the machine; try again."
    ).as_dict()
    with workspace.session() as session:
        ended = CureChanged(cure_id=cure_id, state=STOPPED, failure=failure, ended_at=now())
        ledger.record(session, project, ended)
