"""Choice of what to try: the alert, and how many steps show its fixes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trainwright.tools.gates.trying import fixes_to_try
from trainwright.trainer.base.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence
    from trainwright.tools.training_monitor import Alert
    from trainwright.tools.training_monitor.glance import Glance

LONGER = 1.5
"""A pair runs so many times the steps after which the alert arose."""
LEAST_STEPS = 20


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
    steps = max(math.ceil(LONGER * arose), LEAST_STEPS)
    if per_epoch and arose >= per_epoch:
        steps = math.ceil(steps / per_epoch) * per_epoch
    total = run.resolved.total_steps or status.total_steps
    return min(steps, total) if total else steps


def _ground(alerts: list[Alert]) -> str:
    if not alerts:
        return "it has no alert"
    return f"{', '.join(alert.id for alert in alerts)} have no untried fix that a short run can show"
