"""Look at the splits before training: what plain predictors score, and rows of train that resemble held-out ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.seeding import SPLITS
from trainwright.trainer.clean_room import metrics
from trainwright.trainer.data.drawn_rows import Drawn, draw
from trainwright.trainer.data.fingerprint import EMPTY
from trainwright.trainer.data.near_rows import MAX_HELD_OUT, MAX_TRAIN, nearest_train_row, probe, transformations_of
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.run.looked_at import LookedAt, NearRows, SplitLook

NO_NUMBERS = "inputs are not numbers alone"
BATCHES = "items are batches, which loader.batch_size would make of single samples"
OVERLAPPING = "windows of a series overlap by nature, and are split by time"
NO_TARGETS = "targets are neither one class nor some numbers a row"


def looked_at_evidence(splits: Splits, seed: int, *, is_batched: bool = False) -> LookedAt:
    """Return class counts, plain predictors' scores and near rows, of rows drawn from each split.

    Samples of a form that cannot be compared fail no run: the reason is reported.

    Args:
        splits: the run's samples and records.
        seed: of the run's data.
        is_batched: each item is a batch already.
    """
    if is_batched:
        return LookedAt(splits=_described(splits, {}, None), not_compared=BATCHES, not_scored=BATCHES)
    try:
        return _looked_at(splits, seed)
    except Exception as error:  # noqa: BLE001 - samples may be any objects
        why = f"{type(error).__name__}: {str(error)[:200]}"
        return LookedAt(splits=_described(splits, {}, None), not_compared=why, not_scored=why)


def _looked_at(splits: Splits, seed: int) -> LookedAt:
    drawn = {
        name: draw(splits.samples[name], seed, name, MAX_TRAIN if name == "train" else MAX_HELD_OUT)
        for name in SPLITS
        if name in splits.samples
    }
    train = drawn.pop("train")
    held_out = {name: rows for name, rows in drawn.items() if rows is not None}
    if train is None or len(held_out) < len(drawn):
        return LookedAt(splits=_described(splits, {}, None), not_compared=NO_NUMBERS, not_scored=NO_NUMBERS)
    compared = held_out if splits.series is None else {}
    return LookedAt(
        splits=_described(splits, held_out, train),
        transformations=transformations_of(train.inputs) if splits.series is None else [],
        near_rows=[near for name, rows in compared.items() for near in _near_rows(name, train, rows)],
        not_compared=None if splits.series is None else OVERLAPPING,
        not_scored=NO_TARGETS if train.targets is None else None,
    )


def _described(splits: Splits, held_out: dict[str, Drawn], train: Drawn | None) -> dict[str, SplitLook]:
    found = {}
    for name in splits.samples:
        record = splits.records.get(name, EMPTY)
        look: dict[str, Any] = {"size": record.size, "classes": record.classes}
        if train is not None:
            rows = held_out.get(name, train)
            look |= {"compared": len(rows.indices)} | ({} if rows is train else _scores(train, rows))
        found[name] = SplitLook.model_validate(look)
    return found


def _scores(train: Drawn, rows: Drawn) -> dict[str, Any]:
    """Return what a constant and the nearest train row's target score on a split's rows, by metric."""
    if train.targets is None or rows.targets is None or train.targets.shape[1:] != rows.targets.shape[1:]:
        return {}
    near = train.targets[nearest_train_row(train.inputs, rows.inputs)]
    if {train.targets.dtype.kind, rows.targets.dtype.kind} == {"f"}:
        constant = np.broadcast_to(train.targets.mean(axis=0, dtype=np.float64), rows.targets.shape)
        return {"constant": _of_numbers(constant, rows), "nearest_neighbour": _of_numbers(near, rows)}
    usual = [Counter(column.tolist()).most_common(1)[0][0] for column in train.targets.T]
    return {"constant": _accuracy(np.array(usual), rows), "nearest_neighbour": _accuracy(near, rows)}


def _accuracy(predicted: Array, rows: Drawn) -> dict[str, float]:
    return {"accuracy": float((predicted == rows.targets).mean())}


def _of_numbers(predicted: Array, rows: Drawn) -> dict[str, float]:
    values = {name: metrics.compute(name, predicted, np.asarray(rows.targets)) for name in ("r2", "mae", "mse")}
    return {name: value for name, value in values.items() if np.isfinite(value)}


def _near_rows(name: str, train: Drawn, rows: Drawn) -> list[NearRows]:
    """Return the near rows of train and another split; examples by their indices in the splits."""
    return [
        NearRows.model_validate(
            asdict(near)
            | {"splits": ("train", name)}
            | {"examples": [(train.indices[first], rows.indices[other]) for first, other in near.examples]}
        )
        for near in probe(train.inputs, rows.inputs)
    ]
