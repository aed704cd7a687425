"""Summaries of runs, compared with the recorded series that they summarise.

Both are signed at a run's end; but whoever had the key could sign an edited summary anew. Its figures must follow from
the series, whose rows were written while the run trained.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import MetricStore, RunDirectory
from trainwright.trainer.run.evidence import Summary, rank

VALIDATION, TRAIN = "validation/", "train/"
STEPS, EPOCHS = "train/loss", "epoch"
INSIDE_AN_EPOCH = {"max_steps", "early_stopping"}
"""Reasons that end training in the middle of an epoch: libraries' trainers validate, and stop early, between steps."""


def summary_problem(run: RunDirectory) -> str | None:
    """Return what a run's summary says otherwise than its series; None where they agree, or there is no summary.

    For runs that ended in order: one that was resumed and killed later has the summary of an earlier end.

    Raises:
        IntegrityError: summary, plan or series cannot be read.
    """
    summary = run.part(Summary)
    if summary.stop_reason is None:
        return None
    store = run.metrics()
    with store.reading():
        named = {**_position(summary, store), **_final(summary, store), **_best(summary, store, run)}
    differing = [f"{name} {said}, recorded {found}" for name, (said, found) in named.items() if not _same(said, found)]
    if not differing:
        return None
    return f"its summary does not follow from its recorded series: {'; '.join(differing[:3])}"


def summary_of(run: RunDirectory) -> dict[str, Any] | None:
    """Return a run's summary as it was written; None where there is none, or it cannot be read."""
    try:
        return run.evidence("summary")
    except TrainwrightError:
        return None


Named = dict[str, tuple[object, object]]
"""(value in the summary, value by the series) by what it is."""


def _position(summary: Summary, store: MetricStore) -> Named:
    """Steps and epochs. The epoch that a bound on steps, or an early stop, falls into is recorded, and not complete."""
    last = {key: point for key in (STEPS, EPOCHS) if (point := store.last(key)) is not None}
    ended = int(last[EPOCHS].value) if EPOCHS in last else 0
    if summary.stop_reason in INSIDE_AN_EPOCH and summary.epochs == ended - 1:
        ended -= 1
    skipped = sum(point.value for point in store.series("train/update_skipped"))
    return {
        "steps": (summary.steps, max((point.step for point in last.values()), default=0)),
        "epochs": (summary.epochs, ended),
        "skipped updates": (summary.skipped_updates, int(skipped) if math.isfinite(skipped) else skipped),
    }


def _final(summary: Summary, store: MetricStore) -> Named:
    """Values of the last validated epoch: validation by name, train as `train/<name>`."""
    steps = (point.step for key, point in store.latest().items() if key.startswith(VALIDATION))
    values = _values(store, max(steps, default=-1))
    found = {name.removeprefix(VALIDATION): value for name, value in values.items() if name.startswith(VALIDATION)}
    found |= {name: value for name, value in values.items() if name.startswith(TRAIN) and name in summary.final}
    if "train/epoch_loss" in values:
        found["train/loss"] = values["train/epoch_loss"]
    return _compared("final", summary.final, found)


def _best(summary: Summary, store: MetricStore, run: RunDirectory) -> Named:
    """The epoch with the best finite value of the selection metric, and its validation metrics."""
    selection, said = run.specification().config.selection, summary.best
    points = [point for point in store.series(f"{VALIDATION}{selection.metric}") if math.isfinite(point.value)]
    losses = {point.step: point.value for point in store.series(f"{VALIDATION}loss")}
    ranks = {point.step: rank(point.value, losses.get(point.step), selection.direction) for point in points}
    best = min(points, key=lambda point: ranks[point.step], default=None)
    if best is None or said is None:
        return {"best epoch": (said and said.epoch, best and best.step)}
    values = _values(store, best.step)
    found = {name.removeprefix(VALIDATION): value for name, value in values.items() if name.startswith(VALIDATION)}
    return {
        "best epoch": (said.epoch, values.get(EPOCHS)),
        "best step": (said.step, best.step),
        "best metric": (said.metric, selection.metric),
        "best value": (said.value, best.value),
        **_compared("best", said.metrics, found),
    }


def _compared(what: str, said: Mapping[str, float], found: Mapping[str, float]) -> Named:
    return {f"{what} {name}": (said.get(name), found.get(name)) for name in sorted(said.keys() | found.keys())}


def _values(store: MetricStore, step: int) -> dict[str, float]:
    """Return what was recorded at a step, by key."""
    found = {key: store.at(key, step) for key in store.keys()}  # noqa: SIM118 - a store is no mapping
    return {key: point.value for key, point in found.items() if point is not None}


def _same(said: object, found: object) -> bool:
    return said == found or all(isinstance(value, float) and math.isnan(value) for value in (said, found))
