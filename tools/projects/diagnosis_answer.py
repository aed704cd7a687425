"""Answer of a diagnosis: the verdict, the alerts with their cause first, the curves in numbers, and what is next."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, Field

from trainwright.tools.answers import Answer
from trainwright.tools.gates.cures import CONTROL, Tried, cure_of, read_outcome, runs_of_cure
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.figures import beside
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.training_monitor import Alert
from trainwright.tools.training_monitor.curve_summary import CurveSummary
from trainwright.tools.training_monitor.pairs import PairOutcome
from trainwright.tools.training_monitor.report import Glance
from trainwright.tools.training_orchestrator.recorded import failure_of
from trainwright.tools.training_orchestrator.run_view import FailureView
from trainwright.trainer.base.text import cut

MAX_ALERTS = 3
"""Alerts that a concise answer words; the others it only names."""
MAX_FURTHER, MAX_UNJUDGED = 10, 6
MAX_LAYERS, MAX_ROWS = 3, 5
MAX_FIXES = 3
"""Of the first alert; the others show none."""
MAX_CHARACTERS = 220
"""Of one alert's message, and of one tried fix, in a concise answer."""


class AlertView(BaseModel):
    """One finding: the measurement, the document that explains it, and the calls that fix it."""

    id: str
    severity: str
    message: str
    measured: float | None = None
    threshold: float | None = None
    unit: str = ""
    step: int = 0
    epoch: int | None = None
    layers: list[str] = []
    """Those that the worker named, the worst first."""
    rows: list[str] = []
    """Rows of the training data that the worker named."""
    consequence_of: str | None = None
    """Id of the alert that explains it; absent: it stands for itself."""
    document: str
    fixes: list[str]
    """Calls and hints; without the changes that were tried on this alert and did not clear it."""
    tried: list[str] = []
    """Earlier fixes of this alert, with their results."""

    def concise(self, *, with_fixes: bool, with_tried: bool = True) -> dict[str, Any]:
        """Return it short: the message says the measurement in words, and `next` is one of the fixes."""
        found = self.model_dump(mode="json", exclude={"measured", "threshold", "unit", "epoch"})
        found |= {"message": cut(self.message, MAX_CHARACTERS), "fixes": self.fixes[: MAX_FIXES if with_fixes else 0]}
        found |= {"layers": _some(self.layers, MAX_LAYERS), "rows": _some(self.rows, MAX_ROWS)}
        found["tried"] = [cut(one, MAX_CHARACTERS // 2) for one in self.tried[-1:] if with_tried]
        return {name: value for name, value in found.items() if value not in ("", [], None)}


class FixResult(BaseModel):
    """What one fix did in a short run, beside the run without it."""

    fix: str
    cured: str
    """yes, no, or unclear."""
    why: str
    alert_before: float | None = None
    """The alert's measured value without the fix."""
    alert_after: float | None = None
    value_before: float | None = None
    """The end of the compared curve without the fix."""
    value_after: float | None = None
    noise: float | None = None
    """Of the compared curve, one standard deviation."""
    run_id: str = ""


class FixTrial(BaseModel):
    """Fixes of one alert, tried in short runs: same seed, same steps, with and without each."""

    alert: str
    state: str
    """running, ended, or stopped."""
    steps: int
    without: str | None = None
    """The run without any fix."""
    curve: str | None = None
    """By which value_before and value_after are compared."""
    fixes: list[str] = Field(default_factory=list)
    """Of a trial that is under way: what it tries, in this order."""
    results: list[FixResult] = Field(default_factory=list)
    failure: str | None = None
    """Why it stopped, and the remedy."""


class DiagnosisAnswer(Answer):
    """How a run is going, and what to do about it."""

    ALWAYS: ClassVar[tuple[str, ...]] = ("alerts", "unjudged", "curves")

    project: str
    run_id: str
    kind: str
    state: str
    verdict: str
    """healthy, attention, or stop."""
    failure: FailureView | None = None
    """Why it failed, or was interrupted, and the remedy."""
    fit: str
    """good, outdone (a rival is better beyond chance), guessing (no better than a predictor that learns nothing),
    overfitting, underfitting, …"""
    beside_guessing: str | None = None
    """The score beside that predictor's, in words."""
    beside_rivals: list[str] = Field(default_factory=list)
    """Beside the strongest rival and the user's reference on the same rows, a clause each."""
    recommendation: str
    """Of the model: deploy, optimize, debug, decide (a rival meets the goal better), or conclude below the goal."""
    reasons: list[str]
    epochs: int
    best_epoch: int | None = None
    best_value: float | None = None
    """Of the goal's metric on validation, certified where it can be."""
    reported: float | None = None
    """The training process's own, where that reads differently: the curves show it."""
    gap: float | None = None
    """Train-validation gap at the last epoch; 0.15 is 15 %."""
    gradient_norm_median: float | None = None
    gradient_norm_maximum: float | None = None
    alerts: list[AlertView]
    """The cause before its consequences."""
    further_alerts: list[str] = Field(default_factory=list)
    """Of a concise answer: those that it only names."""
    trial: FixTrial | None = None
    """The newest trial of fixes on this run's configuration."""
    curves: list[CurveSummary] = Field(default_factory=list)
    unjudged: list[str] = Field(default_factory=list)
    """What could not be judged, and why."""
    report: str | None = None
    """Path of the report, when this is the baseline."""
    plots: list[str] = Field(default_factory=list)

    def shown(self, *, full: bool = False) -> dict[str, Any]:
        """Return everything, or what fits into 1,200 tokens: the first alerts in words, the others by name."""
        found = super().shown(full=full)
        if full:
            return found
        has_results = self.trial is not None and bool(self.trial.results)  # they take room, and say what was tried
        most = MAX_ALERTS - has_results
        found["alerts"] = [
            alert.concise(with_fixes=not place and not has_results, with_tried=not has_results)
            for place, alert in enumerate(self.alerts[:most])
        ]
        further = [f"{alert.id} ({alert.severity})" for alert in self.alerts[most:]]
        found["further_alerts"] = _some(further, MAX_FURTHER)
        if "unjudged" in found:
            found["unjudged"] = _some([cut(one, MAX_CHARACTERS // 2) for one in self.unjudged], MAX_UNJUDGED)
        if self.trial is not None and self.trial.state == "running":  # they are those of the answer before
            found = {name: value for name, value in found.items() if name not in {"curves", "unjudged"}}
        said = [alert.message for alert in self.alerts]
        found["reasons"] = [reason for reason in self.reasons if not any(message in reason for message in said)]
        return {name: value for name, value in found.items() if name in self.ALWAYS or value not in ([], {})}

    def unsaid(self) -> dict[str, Any]:
        """Figures of the gradients, where no alert speaks of them; of curves, what their trend says."""
        curves = {
            place: {"slope", "slope_error", "noise"} | (set() if one.spikes else {"spikes"})
            for place, one in enumerate(self.curves)
        }
        return {**dict.fromkeys(("gradient_norm_median", "gradient_norm_maximum"), True), "curves": curves}


def answer_of(
    project: str, run: RunEvidence, seen: Glance, done: dict[str, list[Tried]], vain: dict[str, dict[str, str]]
) -> DiagnosisAnswer:
    """Return the answer about a run, without its next call.

    Args:
        done: by alert, the fixes that were tried.
        vain: by alert and fix, why its change is known to be in vain.
    """
    assessment = seen.assessment
    shown = beside(run.certified().get(assessment.metric or ""), assessment.best_value)
    return DiagnosisAnswer(
        project=project,
        run_id=run.id,
        kind=run.row.kind,
        state=run.status.state.value,
        verdict=seen.verdict,
        failure=failure_of(run.directory),
        fit=assessment.fit,
        beside_guessing=assessment.beside_guessing if assessment.fit != "guessing" else None,
        beside_rivals=assessment.beside_rivals,
        recommendation=assessment.advice,
        reasons=assessment.reasons,
        epochs=assessment.epochs,
        best_epoch=assessment.best_epoch,
        best_value=shown.get("value", assessment.best_value),
        reported=shown.get("reported"),
        gap=assessment.gap,
        gradient_norm_median=assessment.gradient.median,
        gradient_norm_maximum=assessment.gradient.maximum,
        alerts=[_view(project, alert, done.get(alert.id, []), vain.get(alert.id, {})) for alert in assessment.alerts],
        curves=seen.curves,
        unjudged=seen.unjudged,
    )


def _view(project: str, alert: Alert, done: list[Tried], vain: dict[str, str]) -> AlertView:
    in_vain = {one.fix for one in done if not one.cleared} | vain.keys()
    taken = ("id", "severity", "message", "measured", "threshold", "unit", "step", "epoch", "consequence_of")
    return AlertView(
        **alert.model_dump(include=set(taken)),
        layers=alert.layers,
        rows=[str(row) for row in alert.rows],
        document=alert.document,
        fixes=[fix.call(project) or fix.text for fix in alert.fixes if fix.id not in in_vain],
        tried=[*map(str, done), *(f"{fix}: {why}" for fix, why in vain.items())],
    )


def _some(values: list[str], most: int) -> list[str]:
    return values if len(values) <= most else [*values[:most], f"{len(values) - most} more"]


# View of a trial of fixes: its results beside each other, or the call that waits for them.

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
