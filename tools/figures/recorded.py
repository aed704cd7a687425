"""Records of a run: its predictions as arrays, read without pickle, and the errors for what it did not."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainwright.tools.figures.style import cut
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import IntegrityError, NotFoundError
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evaluation import Evaluation

TRAINED = (RunKind.BASELINE, RunKind.TRIAL, RunKind.ABLATION, RunKind.FINAL)


@dataclass(frozen=True)
class Predicted:
    """One run's evaluation and its arrays by name (trainer/run/evaluation.py)."""

    record: RunRecord
    evaluation: Evaluation
    arrays: dict[str, Any]

    @property
    def title(self) -> str:
        """What was evaluated: run, rows and epoch."""
        found = self.evaluation
        return f"{self.record.name}: {found.rows} validation rows, epoch {found.epoch}"

    def class_name(self, number: int, longest: int = 16) -> str:
        """Return a class's name, cut to a length."""
        return cut(self.evaluation.class_name(number), longest)


def predicted(record: RunRecord, kind: str, what: str, *needed: str) -> Predicted:
    """Return a run's predictions.

    Args:
        kind: picture that needs them.
        what: what it draws, as an error names it.
        needed: names of arrays, all of which must be there.

    Raises:
        NotFoundError: there are none, with the reason.
        IntegrityError: the file is not as the worker wrote it.
    """
    found = record.part(Evaluation)
    if found.predictions is None or not set(needed) <= set(found.predictions.arrays):
        raise no_predictions(record, found, kind, what)
    return Predicted(record, found, _arrays(record, found))


def _arrays(record: RunRecord, found: Evaluation) -> dict[str, Any]:
    assert found.predictions is not None  # noqa: S101 - the caller has looked
    path = record.run.artifacts / found.predictions.path
    content = path.read_bytes() if path.is_file() and path.parent == record.run.artifacts else b""
    if digest_bytes(content) != found.predictions.digest:
        raise IntegrityError(
            f"{path.name} of run {record.run.run_id} is not as its worker wrote it.",
            remedy="Start the run again; `trainwright verify WORKSPACE` lists all other changes.",
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


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
