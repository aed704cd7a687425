"""Errors for what a run did not record: what is missing, why, and the next call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from trainwright.tools.training_monitor.record import RunRecord
    from trainwright.trainer.run.evaluation import Evaluation

TRAINED = (RunKind.BASELINE, RunKind.TRIAL, RunKind.ABLATION, RunKind.FINAL)


def nothing_recorded(record: RunRecord, kind: str, what: str) -> NotFoundError:
    """Return the error for series that a run lacks."""
    run, project = record.run.run_id, record.specification.project
    if record.status.state.is_ended:
        remedy = f"start_training(project={project!r}, kind='baseline') trains a run that records them"
    else:
        remedy = f"run_status(run_id={run!r}, wait_seconds=50), then ask again: it trains still"
    return NotFoundError(
        f"Run {run} ({record.specification.kind}, {record.status.state}) recorded no {what}, which {kind} draws.",
        remedy=f"{remedy}; plot_metrics(run_ids=[{run!r}]) draws what there is.",
    )


def no_predictions(record: RunRecord, found: Evaluation, kind: str, what: str) -> NotFoundError:
    """Return the error for figures of predictions that a run lacks."""
    run, project = record.run.run_id, record.specification.project
    retry = f"start_training(project={project!r}, kind='baseline')"
    if found.problem:
        why, remedy = f"its evaluation says: {found.problem}", f"Correct that, then {retry}"
    elif found:
        why, remedy = f"its rows have {found.kind}", "Ask for worst_samples, or for curves"
    elif not record.status.state.is_ended:
        why, remedy = "they are recorded when training is over", f"run_status(run_id={run!r}, wait_seconds=50)"
    elif record.specification.kind not in TRAINED:
        why, remedy = (
            f"a {record.specification.kind} run records none",
            f"Take a baseline, trial or final run, or {retry}",
        )
    else:
        why, remedy = (
            f"it ended as {record.status.state}, before they were recorded",
            f"resume_training(run_id={run!r}), or {retry}",
        )
    return NotFoundError(
        f"Run {run} has no {what}, which {kind} draws: {why}.",
        remedy=f"{remedy}; plot_metrics(run_ids=[{run!r}]) draws its curves.",
    )
