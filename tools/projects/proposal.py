"""The one thing to do about a run: stop it, resume it, try its fixes, apply the first that cured, or decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.answers import NextCall
from trainwright.tools.cures.choice import fixes_to_try
from trainwright.tools.gates import cures
from trainwright.tools.gates.memory import in_vain
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import PERMITTED
from trainwright.trainer.run import RunKind, RunState

if TYPE_CHECKING:
    from trainwright.tools.gates.cures import Tried
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence
    from trainwright.tools.training_monitor import Alert
    from trainwright.tools.training_monitor.glance import Glance

MOST_ADVICE = 300


def proposal(evidence: Evidence, run: RunEvidence, seen: Glance, done: dict[str, list[Tried]]) -> NextCall | None:
    """Return the one call that the run's state and alerts ask for; None where nothing is wrong with it.

    Args:
        done: by alert, the fixes that were tried.
    """
    state, own = run.status.state, {"project": evidence.name, "run_id": run.id}
    alerts = [alert for alert in seen.assessment.alerts if alert.severity != "info"]
    if not state.is_ended and seen.verdict == "stop":
        why = f"{alerts[0].id}: what it trains from here on is lost" if alerts else "it has failed"
        return NextCall(tool="stop_training", arguments=own, why=why)
    if state is RunState.INTERRUPTED and seen.verdict != "stop":
        return NextCall(tool="resume_training", arguments=own, why="it was interrupted")
    if run.row.kind == RunKind.CURE:
        source = {"project": evidence.name, "run_id": run.row.source_run}
        return NextCall(tool="diagnose_run", arguments=source, why="it tries a fix of that run")
    calls = (call for one in alerts if (call := _against(evidence, run, one, done.get(one.id, []))) is not None)
    return next(calls, None) or (_left(evidence, alerts[0], done.get(alerts[0].id, [])) if alerts else None)


def _against(evidence: Evidence, run: RunEvidence, alert: Alert, done: list[Tried]) -> NextCall | None:
    """Return the call that tries the alert's fixes, or applies the first that may help; None without any."""
    if (fixes := fixes_to_try(evidence, run, alert)) and _may_try(evidence):
        names = ", ".join(fix["id"] for fix in fixes)
        why = f"{alert.id}: short runs with and without each say which of its fixes cures: {names}"
        arguments = {"project": evidence.name, "run_id": run.id, "fix": "try"}
        return NextCall(tool="diagnose_run", arguments=arguments, why=why)
    proven = {one.fix: one for one in done if one.cleared and one.in_pairs}
    for fix in cures.untried(alert.model_dump(mode="json"), done):
        shown = f" Proven: {proven[fix['id']]}." if fix["id"] in proven else ""
        stated = {"reason": f"{alert.id}: {fix['text']}"} if alert.id in cures.OF_MEMORY else {}
        call = evidence.call("configure", f"{alert.id}: {fix['text']}{shown}", changes=fix["changes"], **stated)
        if not in_vain(evidence, call):
            return call
    return None


def _may_try(evidence: Evidence) -> bool:
    where = phase_status_of(evidence)
    return not where.is_finished and RunKind.CURE in PERMITTED[where.phase]


def _left(evidence: Evidence, alert: Alert, done: list[Tried]) -> NextCall:
    """Name what is left of an alert that no key of the configuration can clear, and who decides."""
    if alert.severity == "critical":
        return cures.cure(evidence, alert.model_dump(mode="json"))
    tried = ", ".join(one.fix for one in done if not one.cleared)
    advice = " ".join(fix.text for fix in alert.fixes if not fix.changes)[:MOST_ADVICE]
    why = f"{alert.id}: {f'tried without a cure: {tried}; ' if tried else ''}no key of the configuration is left; "
    why += f"the author of code and data decides: {advice}" if advice else "code or data have to change"
    return NextCall(tool="read_document", arguments={"path": alert.document}, why=why)
