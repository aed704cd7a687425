"""View of a trial of fixes: its results beside each other, or the call that waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.paired import CONTROL, RUNNING, cure_of, read_outcome, runs_of_cure
from trainwright.tools.projects.diagnosis_answer import FixResult, FixTrial

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence
    from trainwright.tools.training_monitor.pairs import PairOutcome

WORDS = {True: "yes", False: "no", None: "unclear"}


def trial_of(evidence: Evidence, run: RunEvidence) -> FixTrial | None:
    """Return the newest trial of fixes on the run's configuration; None where nothing was tried."""
    cure = cure_of(evidence, run.id)
    if cure is None:
        return None
    found = [one for values in cure.outcomes if (one := read_outcome(values)) is not None]
    failure = cure.failure or {}
    return FixTrial(
        alert=cure.alert,
        state=cure.state,
        steps=cure.steps,
        without=runs_of_cure(evidence.facts, cure.cure_id).get(CONTROL),
        curve=next((one.curve for one in found if one.curve), None),
        fixes=[fix["id"] for fix in cure.fixes] if not found else [],
        results=[_result(one) for one in found],
        failure=f"{failure['message']} {failure['remedy']}" if failure else None,
    )


def waiting_call(evidence: Evidence, run: RunEvidence) -> NextCall | None:
    """Return the call that waits for the trial's run under way; None where no trial is under way."""
    cure = cure_of(evidence, run.id)
    if cure is None or cure.state != RUNNING:
        return None
    ids = list(runs_of_cure(evidence.facts, cure.cure_id).values())
    living = [one for run_id in ids if (one := evidence.run(run_id)) is not None and one.sealed is None]
    why = f"fixes of {cure.alert} are being tried"
    if not living:
        return NextCall(tool="diagnose_run", arguments={"project": evidence.name, "run_id": run.id}, why=why)
    return NextCall(tool="run_status", arguments={"run_id": living[-1].id, "wait_seconds": 50}, why=why)


def _result(one: PairOutcome) -> FixResult:
    return FixResult(
        fix=one.fix,
        cured=WORDS[one.cured],
        why=one.why,
        alert_before=one.before,
        alert_after=one.after,
        value_before=one.value_before,
        value_after=one.value_after,
        noise=one.noise,
        run_id=one.run,
    )
