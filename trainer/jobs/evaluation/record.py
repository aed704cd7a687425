"""Record of an evaluation: after training, from the best epoch's weights, on validation rows alone."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from trainwright.trainer.base import seeding
from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.checkpoints.store import DirectoryStore
from trainwright.trainer.engine.session import DEPLOYED, Session
from trainwright.trainer.engine.strategy import Strategy
from trainwright.trainer.jobs.evaluation import shown
from trainwright.trainer.jobs.evaluation.forecasts import ScoredWindows, forecasts
from trainwright.trainer.jobs.evaluation.forms import CLASSES, LABELS, LOSSES, NUMBERS, PLACES
from trainwright.trainer.jobs.evaluation.importance import latency_ms, permutation_importance
from trainwright.trainer.jobs.evaluation.masks import worst_masks
from trainwright.trainer.jobs.evaluation.outputs import Outputs, output_of, outputs, own_loss, validation_loader
from trainwright.trainer.run import RunDirectory, RunKind, write_atomically
from trainwright.trainer.run.evaluation import FILE, Evaluation, Fifth, PermutationImportance, Predictions, Ranges
from trainwright.trainer.strategies.parallel import Ddp
from trainwright.trainer.user_code.guard import user_code

EVALUATED = frozenset({RunKind.BASELINE, RunKind.TRIAL, RunKind.ABLATION, RunKind.FINAL})
"""Kinds whose result someone looks at; a smoke run has learned nothing, and a replay's is its source's."""
HELD_OUT = ("validation", "test")


def evaluation(session: Session) -> Evaluation:
    """Evaluate the run's model on its validation rows. Training is over: the model may hold other weights afterwards.

    Never fails: `problem` says why there are no figures.
    """
    started = time.perf_counter()
    try:
        with user_code("The model's evaluation", session.context.code_root), _evaluated(session) as where:
            found = _figures(session).model_copy(update=where)
    except Exception as error:  # noqa: BLE001 - whatever a model raises: the run is complete
        found = Evaluation(problem=f"{error or type(error).__name__}"[:400])
    return found.model_copy(update={"seconds": round(time.perf_counter() - started, 3)})


def held_out_importance(session: Session) -> PermutationImportance | None:
    """Return the importance of a table's columns on validation and test rows together, for the deployed weights.

    Fewer rows tell a column of no effect from one of some by luck; and an export has looked at the test rows.
    None where there is none to tell.
    """
    samples = session.work.splits.samples
    if not all(shown.is_table(samples.get(split)) for split in HELD_OUT):
        return None
    try:
        with user_code("The model's evaluation", session.context.code_root), seeding.preserved(), torch.no_grad():
            seeding.seed_measurement(session.config.seed, 0)
            call = output_of(session)
            return permutation_importance(session, call, {one: outputs(session, call, one) for one in HELD_OUT})
    except Exception:  # noqa: BLE001 - whatever a model raises: the figure of validation is there
        return None


@contextmanager
def _evaluated(session: Session) -> Iterator[dict[str, Any]]:
    """Put the best epoch's weights into the model, in evaluation mode; yield which they are."""
    if "validation" not in session.work.splits.samples:
        raise DataError("The data have no validation split.", remedy="Set data.split.validation above 0.")
    if type(session.strategy) not in {Strategy, Ddp}:
        raise ConfigurationError(
            "The weights are divided among processes, and this run does not gather them.",
            remedy="The export run evaluates the model: export_model(project).",
        )
    progress, best = session.progress, session.progress.best
    where: dict[str, Any] = {"epoch": progress.epoch, "checkpoint": None}
    is_present = True
    if best is not None and (best.checkpoint is not None or best.step == progress.step):
        where = {"epoch": best.epoch, "checkpoint": best.checkpoint}
        is_present = best.step == progress.step
        if not is_present and best.checkpoint is not None:
            session.load_components(DirectoryStore(session.run).open(best.checkpoint), DEPLOYED)
    session.model.eval()
    session.context.training = False
    with _weights(session, is_present=is_present), seeding.preserved(), torch.no_grad():
        seeding.seed_measurement(session.config.seed, 0)
        yield where


@contextmanager
def _weights(session: Session, *, is_present: bool) -> Iterator[None]:
    """Evaluate averages where the weights are those of training; a checkpoint holds the evaluated ones."""
    if is_present:
        with session.evaluated_weights():
            yield
    else:
        yield


def _figures(session: Session) -> Evaluation:
    call, splits = output_of(session), session.work.splits
    scored = ScoredWindows(call, session.config.selection)
    found = outputs(session, call if splits.series is None else scored)
    worst, best = shown.extremes(found)
    values: dict[str, Any] = {}
    if splits.series is not None and found.form == NUMBERS:
        values["forecasts"], windows = forecasts(session, call, found, scored)
        found.arrays |= windows
    elif (images := shown.thumbnails(found, worst, splits.samples["validation"])) is not None:
        found.arrays["worst_images"] = images
        if found.form == PLACES:
            found.arrays |= worst_masks(session, call, found.arrays["row"][worst], images)
    if found.form in {CLASSES, LABELS} or found.confusion is not None:
        values["class_names"] = splits.class_names
    if found.form == NUMBERS:
        values["target_names"] = splits.target_names
    if found.confusion is not None:
        values["confusion"] = found.confusion.tolist()
    loss = "your loss" if found.form == PLACES and own_loss(session) else LOSSES[found.form]
    if found.form == NUMBERS and found.arrays.get("target", np.empty(0)).ndim > 1:
        loss = "squared error, each target in its own deviation"
    is_of_many = session.specification.kind is RunKind.TRIAL  # a search's, and this evaluates the model 32 times over
    if not is_of_many and (importance := permutation_importance(session, call, {"validation": found})) is not None:
        values["importance"] = importance
    if times := latency_ms(session, call, next(iter(validation_loader(session).batches(0)))):
        values["latency_ms"] = times
    return Evaluation(
        kind=found.form,
        size=found.size,
        rows=found.rows,
        loss=loss,
        ranges=ranges_of(found),
        worst=shown.shown(found, worst, splits),
        best=shown.shown(found, best, splits),
        predictions=_written(session.run, found),
        **values,
    )


def _written(run: RunDirectory, found: Outputs) -> Predictions:
    """Write the arrays, without pickle; numbers of classes in the smallest type."""
    arrays = {name: _small(value) for name, value in found.arrays.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    content = buffer.getvalue()
    write_atomically(run.artifacts / FILE, content)
    digest = run.written[f"artifacts/{FILE}"] = digest_bytes(content)
    return Predictions(digest=digest, bytes=len(content), arrays=sorted(arrays))


def _small(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if values.dtype.kind == "i" and values.size and values.min() >= 0 and values.max() < 1 << 31:
        return values.astype(np.min_scalar_type(int(values.max())))
    return values


# Errors of predicted numbers by fifths of the targets and of the predictions, from the evaluated rows.

MIN_ROWS = 50
"""Ten in a fifth."""


def ranges_of(found: Outputs) -> list[Ranges]:
    """Return the ranges of each target; empty of other forms, of few rows, and of targets that do not vary."""
    if found.form != NUMBERS or "target" not in found.arrays or found.rows < MIN_ROWS:
        return []
    columns = (found.arrays[name].reshape(found.rows, -1).T.astype(np.float64) for name in ("target", "prediction"))
    return [_ranges(*pair) for pair in zip(*columns, strict=True) if np.isfinite(pair).all() and np.ptp(pair[0]) > 0]


def _ranges(target: Array, prediction: Array) -> Ranges:
    """Return the ranges of one target, both (rows,)."""
    errors, varies = prediction - target, np.ptp(prediction) > 0
    return Ranges(
        targets=(float(target.min()), float(target.max())),
        predictions=(float(prediction.min()), float(prediction.max())),
        deviation=float(target.std()),
        spread=float(prediction.std()),
        correlation=float(np.corrcoef(target, prediction)[0, 1]) if varies else 0.0,
        by_target=_fifths(target, errors),
        by_prediction=_fifths(prediction, errors),
    )


def _fifths(by: Array, errors: Array) -> list[Fifth]:
    parts = np.array_split(np.argsort(by, kind="stable"), 5)
    return [
        Fifth(
            low=float(by[rows].min()),
            high=float(by[rows].max()),
            error=float(errors[rows].mean()),
            standard_error=float(errors[rows].std(ddof=1) / np.sqrt(len(rows))),
        )
        for rows in parts
    ]
