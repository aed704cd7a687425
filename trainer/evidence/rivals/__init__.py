"""Rivals of a model, by kind of data: one file each, which `RIVALS` lists. They decide nothing.

A baseline's worker scores them on validation, and keeps what they give there; an export's what they give for test
rows too. The clean room scores that beside the program, on the rows that planning fixed (`clean_room/rivals.py`).
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence.rivals import boosted_trees, class_means, counted_words, linear, naive_forecasts
from trainwright.trainer.evidence.rivals.fitted import Array, Fitted, UnfitError, scores, targets_of
from trainwright.trainer.run.artifacts import Array as Recorded
from trainwright.trainer.run.rivals import KeptOutputs, Rival, Rivals, TrainRows


def _of_tables(splits: Splits, config: TrainingConfig) -> list[Fitted]:
    trees = boosted_trees.fit(splits, config)
    return [*trees, *linear.fit(splits, config)] if trees else []


RIVALS = (naive_forecasts.fit, _of_tables, counted_words.fit, class_means.fit)
"""The first whose kind the data are fits one or more."""
FOLDER = "rivals"
"""Of the kept outputs, below `artifacts/`."""
MAX_BYTES = 1 << 27
"""Of one rival's outputs for one split that are kept."""


def rivals_evidence(
    splits: Splits, config: TrainingConfig, keep_in: Path | None = None, of: Sequence[str] = ("validation",)
) -> Rivals | None:
    """Fit rivals on the train split, score them on validation; None where there is none for such data. Never raises.

    Args:
        splits: of the run.
        config: whose metrics are computed.
        keep_in: a run's `artifacts/`, in which the outputs are kept.
        of: the splits whose outputs are kept.
    """
    started = time.monotonic()
    train: TrainRows | None = None
    try:
        train = _kept_train(splits, keep_in) if keep_in is not None and config.reference is not None else None
        fitted = next((found for fit in RIVALS if (found := fit(splits, config))), [])
        rivals = [_record(one, splits, config, keep_in, of) for one in fitted]
    except Exception as error:  # noqa: BLE001 - a comparison fails no run
        why = str(error) if isinstance(error, UnfitError) else f"{type(error).__name__}: {str(error)[:200]}"
        return Rivals(not_fitted=why, train=train)
    held_out = splits.samples.get("validation")
    rows, seconds = len(held_out) if held_out is not None else 0, round(time.monotonic() - started, 3)
    is_any = bool(rivals) or train is not None
    return Rivals(rivals=rivals, validation_rows=rows, seconds=seconds, train=train) if is_any else None


def _kept_train(splits: Splits, keep_in: Path) -> TrainRows | None:
    """Return the train rows that the user's reference is fitted on, where they are arrays, and no more than so many."""
    train = splits.samples["train"]
    if type(train) is not TensorSamples or splits.series is not None or train.sample_bytes * len(train) > MAX_BYTES:
        return None
    *inputs, targets = (train.column(number).numpy(force=True) for number in range(len(train.base)))
    folder = keep_in / FOLDER / "train"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kept = [_kept(values, folder / f"{number}.npy", keep_in) for number, values in enumerate(inputs)]
    return TrainRows(inputs=kept, targets=_kept(targets, folder / "targets.npy", keep_in))


def _record(fitted: Fitted, splits: Splits, config: TrainingConfig, keep_in: Path | None, of: Sequence[str]) -> Rival:
    metrics: dict[str, float] = {}
    kept: dict[str, KeptOutputs] = {}
    for name in of:
        if (samples := splits.samples.get(name)) is None:
            continue
        outputs, targets = fitted.outputs(samples), targets_of(samples)
        if name == "validation":
            groups = splits.groups.get(name)
            metrics = scores(config, fitted.usual, outputs, targets, groups=groups, naive_errors=splits.naive_errors)
        if keep_in is not None and outputs.nbytes <= MAX_BYTES:
            folder = keep_in / FOLDER / fitted.name / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            files = {"outputs": outputs.astype(np.float32), "targets": targets}
            found = {one: _kept(values, folder / f"{one}.npy", keep_in) for one, values in files.items()}
            kept[name] = KeptOutputs.model_validate(found)
    return Rival(name=fitted.name, told=fitted.told, metrics=metrics, kept=kept)


def _kept(values: Array, path: Path, below: Path) -> Recorded:
    np.save(path, values)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    place = path.relative_to(below).as_posix()
    return Recorded(path=place, digest=digest, dtype=str(values.dtype), shape=list(values.shape))
