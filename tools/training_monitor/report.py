"""Diagnostic report (`diagnostic_report.md`): measurements, their meaning, one recommendation. From evidence only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from trainwright.tools.documents.rendering import render
from trainwright.tools.training_monitor.assessment import assess
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.trainer.run import Goal, RunDirectory

if TYPE_CHECKING:
    from trainwright.tools.training_monitor.assessment import Assessment
    from trainwright.tools.training_monitor.outdone import BesideRival

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
