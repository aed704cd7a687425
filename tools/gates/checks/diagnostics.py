"""Diagnostics: the baseline's curves were read, and every finding has an answer."""

from __future__ import annotations

from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates import cures
from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.outcomes import (
    Outcome,
    check,
    failed,
    not_applicable,
    passed,
    passed_if,
    passed_with_exemption,
)
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.trying import options_against
from trainwright.trainer.run import RunKind

REPORT = "diagnostic_report.md"


def diagnosis(evidence: Evidence) -> dict[str, Any] | None:
    """Return the newest diagnosis of the present baseline, from the ledger."""
    if evidence.baseline is None:
        return None
    bodies = [body for _, body in evidence.entries("diagnosis")]
    of_baseline = [body for body in bodies if body["run_id"] == evidence.baseline.id]
    return of_baseline[-1] if of_baseline else None


@check("diagnostics.report_written")
def report_written(evidence: Evidence, line: CheckLine) -> Outcome:
    """The server's report on the baseline exists and is as it was written."""
    required = f"{REPORT} on the baseline, unchanged since the server wrote it"
    found = diagnosis(evidence)
    if found is None:
        return _missing(evidence, "no diagnosis of the baseline", required)
    changed = [name for name, digest in found["artifacts"].items() if evidence.artifact_digest(name) != digest]
    measured = f"changed or missing: {', '.join(changed)}" if changed else f"{len(found['artifacts'])} files unchanged"
    return passed_if(not changed, measured, required, _diagnose(evidence))


@check("diagnostics.learning_curves_analysed")
def learning_curves_analysed(evidence: Evidence, line: CheckLine) -> Outcome:
    """There are enough epochs to see a trend."""
    required = f"train and validation loss over at least {line.threshold:.0f} epochs"
    found = diagnosis(evidence)
    if found is None:
        return _missing(evidence, "no diagnosis", required)
    epochs = int(found["assessment"].get("epochs") or 0)
    remedy = evidence.call("configure", "train for more epochs", changes={"training.epochs": 10})
    return passed_if(epochs >= (line.threshold or 1), f"{epochs} epochs", required, remedy)


@check("diagnostics.fit_assessed")
def fit_assessed(evidence: Evidence, line: CheckLine) -> Outcome:
    """Over- and underfitting were assessed from the curves."""
    found = diagnosis(evidence)
    if found is None:
        return _missing(evidence, "no diagnosis", line.text)
    fit = found["assessment"].get("fit")
    known = fit in {"good", "outdone", "guessing", "overfitting", "underfitting"}
    return passed_if(known, f"fit: {fit}", "good, outdone, guessing, overfitting or underfitting", _diagnose(evidence))


@check("diagnostics.gradients_recorded")
def gradients_recorded(evidence: Evidence, line: CheckLine) -> Outcome:
    """The gradient norm of (nearly) every step was recorded."""
    share_required = line.threshold or 1.0
    required = f"gradient norms of at least {100 * share_required:.0f} % of the steps"
    run = evidence.baseline
    if run is None:
        return _missing(evidence, "no baseline run", required)
    recorded = run.directory.metrics().count("train/gradient_norm")
    steps = run.summary.steps
    enough = steps > 0 and recorded >= share_required * steps
    if not enough and steps > 0 and run.resolved.objective == "train_step":
        return not_applicable(f"{recorded} of {steps} steps: the user's train_step clears its gradients", required)
    return passed_if(enough, f"{recorded} of {steps} steps", required, evidence.start(RunKind.BASELINE))


@check("diagnostics.no_critical_alert")
def no_critical_alert(evidence: Evidence, line: CheckLine) -> Outcome:
    """Nothing critical is open on the baseline."""
    found = diagnosis(evidence)
    if found is None:
        return _missing(evidence, "no diagnosis", "no critical alert")
    still_open, accepted = cures.open_alerts(evidence, found["alerts"])
    if still_open:
        names = ", ".join(cures.described(evidence, alert) for alert in still_open)
        return failed(names, "no critical alert", cures.cure(evidence, still_open[0]))
    if accepted:
        return passed_with_exemption(f"the owner accepts: {', '.join(accepted)}", "no critical alert")
    return passed("none", "no critical alert")


@check("diagnostics.recommendation_made")
def recommendation_made(evidence: Evidence, line: CheckLine) -> Outcome:
    """One recommendation was made, and it is not to debug."""
    found = diagnosis(evidence)
    if found is None:
        return _missing(evidence, "no diagnosis", "deploy or optimize")
    recommendation, required = found["assessment"].get("recommendation"), "deploy or optimize"
    if recommendation in {"deploy", "optimize"}:
        return passed(recommendation, required)
    still_open, accepted = cures.open_alerts(evidence, found["alerts"])
    if still_open:
        return failed(recommendation, required, cures.cure(evidence, still_open[0]))
    if accepted and found["assessment"].get("best_value") is not None:  # nothing else was to be debugged
        return passed_with_exemption(f"{recommendation}, for {', '.join(accepted)}, which the owner accepts", required)
    if found["assessment"].get("fit") == "guessing" and evidence.baseline is not None:
        return _guessing(evidence, found, evidence.baseline)
    return failed(recommendation, required, _diagnose(evidence))


def _guessing(evidence: Evidence, found: dict[str, Any], run: RunEvidence) -> Outcome:
    """Refuse to search around a baseline that is no better than guessing while a fix of its alerts is left to try."""
    sick = [alert for alert in found["alerts"] if alert["severity"] != "info"]
    left = [option.call for option in options_against(evidence, run, sick) if not option.vain]
    measured = f"debug: no better than guessing; {'a fix is' if left else 'no fix is'} left to try"
    return passed_if(not left, measured, "deploy or optimize", left[0] if left else None)


def _missing(evidence: Evidence, measured: str, required: str) -> Outcome:
    return failed(measured, required, _diagnose(evidence))


def _diagnose(evidence: Evidence) -> NextCall:
    if evidence.baseline is None:
        return evidence.start(RunKind.BASELINE)
    if not evidence.baseline.is_complete:
        return evidence.baseline.next_call()
    return evidence.call("diagnose_run", "the server reads the baseline's curves", run_id=evidence.baseline.id)
