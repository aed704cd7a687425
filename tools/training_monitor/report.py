"""`diagnostic_report.md`: what was measured, what it means, what to do. One recommendation, from evidence only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.tools.training_monitor.assessment import Assessment, Goal, assess
from trainwright.tools.training_monitor.documents import DOCUMENTS
from trainwright.tools.training_monitor.record import RunRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainwright.tools.training_monitor.diagnosis import Alert
    from trainwright.trainer.run import RunDirectory

FIT_IN_WORDS = {
    "good": "good: no over- or underfitting beyond the documents' thresholds",
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
    folder: Path | None = None,
    documents: Path = DOCUMENTS,
) -> str:
    """Return the report as Markdown.

    Args:
        run: the run it is about.
        goal: what the project wants.
        plots: picture files to link.
        folder: where the report will stand, for relative links; the pictures' parent's parent by default.
        documents: folder of the diagnostic documents.

    Raises:
        IntegrityError: the run's record is damaged.
    """
    assessment = assess(run, goal, documents)
    record = RunRecord(run)
    parts = [
        f"# Diagnostic report: {run.run_id}",
        f"Run `{run.run_id}` ({record.specification.kind}, {record.status.state}) of project "
        f"`{record.specification.project}`. Every number is from the run's own record.",
        "## Recommendation",
        f"Recommendation: {assessment.recommendation}",
        "\n".join(f"- {reason}" for reason in assessment.reasons),
        _ignored(record.resolved.ignored_keys or []),
        "## Learning curves",
        _curves(assessment),
        "\n\n".join(_links(plots, folder)),
        "## Gradients and resources",
        _health(assessment),
        f"## Alerts ({len(assessment.alerts)})",
        "\n\n".join(_alert(alert, record.specification.project) for alert in assessment.alerts)
        or "None of the diagnostic documents' triggers holds.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _ignored(keys: Sequence[str]) -> str:
    """Name the keys that change nothing, so that nobody reads an effect into them."""
    return f"Keys that the configuration sets and this run made no use of: {', '.join(keys)}." if keys else ""


def _curves(a: Assessment) -> str:
    rows = [
        ("Epochs trained", str(a.epochs)),
        ("Best epoch", _text(a.best_epoch, "d")),
        (f"Validation {a.metric or 'metric'} at the best epoch", _text(a.best_value, ".5g")),
        (f"Validation {a.metric or 'metric'} at the last epoch", _text(a.last_value, ".5g")),
        ("Training loss, change per epoch (last five epochs)", _text(a.train_loss_slope, "+.3g")),
        ("Validation loss, change per epoch (last five epochs)", _text(a.validation_loss_slope, "+.3g")),
        ("Train-validation gap at the last epoch", _text(a.gap, ".1%")),
        ("Train-validation gap at the best epoch", _text(a.gap_at_best, ".1%")),
        ("Share of the learned loss reduction missing on validation, last epoch", _text(a.loss_gap, ".1%")),
        ("Fit", FIT_IN_WORDS[a.fit]),
        ("Goal", _goal(a)),
    ]
    return _table(rows)


def _goal(a: Assessment) -> str:
    if a.goal is None:
        return "none stated"
    sign = "≥" if a.goal.direction == "maximize" else "≤"
    verdict = {True: "met", False: "missed", None: "not measured"}[a.goal_met]
    return f"validation {a.goal.metric} {sign} {a.goal.target:g}: {verdict}"


def _health(a: Assessment) -> str:
    use = a.resources
    gpu = "not applicable: no GPU was used" if use.gpu_percent is None else f"{use.gpu_percent:.0f} %"
    memory = None if use.memory_bytes is None else use.memory_bytes / 2**20
    rows = [
        ("Steps with a recorded gradient norm", str(a.gradient.steps)),
        ("Total gradient norm, median", _text(a.gradient.median, ".4g")),
        ("Total gradient norm, largest", _text(a.gradient.maximum, ".4g")),
        ("Share of gradient norms not finite", f"{a.gradient.non_finite_share:.1%}"),
        ("GPU utilisation, mean", gpu),
        ("CPU utilisation, mean", _text(use.cpu_percent, ".0f", " % of the allowed cores")),
        ("Time spent waiting for data", _text(use.data_wait_share, ".1%")),
        ("Throughput, mean", _text(use.samples_per_second, ",.0f", " samples/s")),
        ("Memory, mean", _text(memory, ",.0f", " MiB")),
    ]
    return _table(rows)


def _alert(alert: Alert, project: str) -> str:
    lines = [
        f"### {alert.title} ({alert.severity})",
        f"{alert.message} Document: `{alert.document}`.",
        "| Measured | Threshold | Unit | Step | Epoch |\n|---|---|---|---|---|\n"
        f"| {_text(alert.measured, '.5g')} | {alert.threshold:g} | {alert.unit} | {alert.step} "
        f"| {_text(alert.epoch, 'd')} |",
        "\n".join(f"- {fix.text}" + (f"  \n  `{fix.call(project)}`" if fix.changes else "") for fix in alert.fixes),
    ]
    return "\n\n".join(lines)


def _table(rows: list[tuple[str, str]]) -> str:
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in rows)


def _links(plots: Sequence[Path], folder: Path | None) -> list[str]:
    links = []
    for plot in plots:
        target = os.path.relpath(plot, folder or plot.parent.parent)
        links.append(f"![{plot.stem.replace('_', ' ').replace('-', ' ').capitalize()}]({Path(target).as_posix()})")
    return links


def _text(value: float | None, form: str, unit: str = "") -> str:
    return "not recorded" if value is None else f"{value:{form}}{unit}"
