"""A run at a glance: whether to go on, to look, or to stop, its curves in numbers, and what could not be judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from trainwright.tools.training_monitor.assessment import Assessment, assess_record
from trainwright.tools.training_monitor.curve_summary import CurveSummary, curve_summaries
from trainwright.tools.training_monitor.documents import load_diagnostics
from trainwright.tools.training_monitor.not_evaluated import unjudged
from trainwright.tools.training_monitor.outdone import BesideRival
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.run import Goal, RunDirectory, RunState

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
