"""Diagnostic report (`diagnostic_report.md`): measurements, their meaning, one recommendation. From evidence only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from trainwright.tools.documents.rendering import render
from trainwright.tools.training_monitor.assessment import Assessment, assess, assess_record
from trainwright.tools.training_monitor.curve_summary import CurveSummary, curve_summaries
from trainwright.tools.training_monitor.documents import load_diagnostics
from trainwright.tools.training_monitor.not_evaluated import unjudged
from trainwright.tools.training_monitor.outdone import BesideRival
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.run import Goal, RunDirectory, RunState

FIT_IN_WORDS = {
    "good": "good: no over- or underfitting beyond the documents' thresholds",
    "outdone": "outdone: nothing ails the curves, and a rival on the same rows is better beyond chance",
    "guessing": "no better than guessing: nothing shows that it has learned what holds for other samples",
    "overfitting": "overfitting: clearly better on the training data than on validation",
    "underfitting": "underfitting: little learned even on the training data",
    "diverged": "diverged: the loss stopped being finite",
    "too_short": "too short to tell: fewer than two validated epochs",
}


def diagnostic_report(
    run: RunDirectory,
    goal: Goal | None,
    plots: Sequence[Path],
    *,
    further: Mapping[str, Any] | None = None,
    rivals: Sequence[BesideRival] = (),
) -> str:
    """Return the report as Markdown.

    Args:
        run: the run it is about.
        goal: the project's goal.
        plots: picture files to link, in a folder of the report's.
        further: additions of the project: `tried` fixes by alert, `fixed` alerts, the `ground` to end below the goal,
            `granted`.
        rivals: beside which the run's program was evaluated.

    Raises:
        IntegrityError: the run's record is damaged.
    """
    assessment = assess(run, goal, rivals=rivals)
    record = RunRecord(run)
    return render(
        "training_monitor/diagnostic_report.md.j2",
        run=run,
        kind=record.specification.kind,
        state=record.status.state,
        project=record.specification.project,
        ignored=record.resolved.ignored_keys or [],
        a=assessment,
        fit=_fit(assessment),
        plots=[(plot.stem.replace("_", " ").replace("-", " ").capitalize(), _link(plot)) for plot in plots],
        number=_text,
        **(further or {}),
    )


def _fit(assessment: Assessment) -> str:
    beside = [assessment.beside_guessing] if assessment.beside_guessing else []
    return "; ".join([FIT_IN_WORDS[assessment.fit], *beside, *assessment.beside_rivals])


def _link(plot: Path) -> str:
    return quote(f"{plot.parent.name}/{plot.name}")


def _text(value: float | None, form: str, unit: str = "") -> str:
    return "not recorded" if value is None else f"{value:{form}}{unit}"


# A run at a glance: whether to go on, to look, or to stop, its curves in numbers, and what could not be judged.

Verdict = Literal["healthy", "attention", "stop"]


class Glance(Frozen):
    """An assessment, and what an agent reads of it first."""

    assessment: Assessment
    verdict: Verdict
    curves: list[CurveSummary]
    unjudged: list[str]


def glance(
    run: RunDirectory,
    goal: Goal | None = None,
    *,
    accepted: set[str] | None = None,
    rivals: Sequence[BesideRival] = (),
) -> Glance:
    """Read a run once and return what there is to say of it, at any moment of its life.

    Args:
        accepted: critical alerts that the owner accepts; they ask for attention, and not to stop.
        rivals: beside which the run's program was evaluated.

    Raises:
        IntegrityError: the run's record is damaged.
        ConfigurationError: a diagnostic document is not valid.
    """
    record, diagnostics = RunRecord(run), load_diagnostics()
    with record.metrics.reading():
        assessment = assess_record(record, diagnostics, goal, rivals)
        curves = curve_summaries(record, goal)
        open_questions = unjudged(record, diagnostics, {alert.id for alert in assessment.alerts})
    return Glance(
        assessment=assessment,
        verdict=verdict_of(assessment, record.status.state, accepted or set()),
        curves=curves,
        unjudged=open_questions,
    )


def verdict_of(assessment: Assessment, state: RunState, accepted: set[str]) -> Verdict:
    """Return stop for a critical alert or a failed run, attention for a warning, an interruption, or a miss.

    A miss is a goal not met, a score no better than guessing, or a better rival.
    """
    severities = {alert.severity for alert in assessment.alerts if alert.id not in accepted}
    if "critical" in severities or state is RunState.FAILED:
        return "stop"
    if severities & {"warning"} or accepted & {alert.id for alert in assessment.alerts}:
        return "attention"
    is_short = state.is_ended and (assessment.goal_met is False or assessment.fit in {"guessing", "outdone"})
    return "attention" if state is RunState.INTERRUPTED or is_short else "healthy"
