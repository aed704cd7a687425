"""Keys of a configuration that changed nothing: the run never used them, or an earlier run without them was the same.

Two runs of a project whose per-step losses agree bit for bit trained the same, whatever their configurations say. Of
many runs few agree in their first losses, so that only those are read completely.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from trainwright.tools.training_monitor.record import STEP_LOSS, RunRecord
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.file_stamps import while_unchanged
from trainwright.trainer.config import flatten
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.models import MODELS
from trainwright.trainer.run import MetricStore, RunDirectory, RunKind
from trainwright.trainer.run.conditions import Sample
from trainwright.trainer.run.digests import METRICS
from trainwright.trainer.run.metrics import Point

TRAINED_WHOLE = frozenset({RunKind.BASELINE, RunKind.TRIAL, RunKind.ABLATION, RunKind.FINAL})
"""A replay is the same on purpose; a smoke run is too short for most keys to act."""
BESIDE_TRAINING = (
    "checkpoints", "code_root", "data.args.series.period", "data.expectations", "data.prepare", "data.present",
    "data.split.folds", "deployment", "distributed",
    "early_stopping", "evaluation_gate", "loader.num_workers", "loader.persistent_workers", "loader.pin_memory",
    "loader.prefetch_factor", "logging", "metrics", "monitoring", "reproducibility", "returns", "search", "selection",
    "training.channels_last", "training.compile", "training.device", "training.epochs",
    "training.gradient_checkpointing", "training.max_steps", "training.validate_every_n_epochs", "weight_averaging",
)  # fmt: skip
"""Keys of storage, evaluation or speed, which may leave the losses the same. `seed` is not among them."""
FIRST_LOSSES = 3
"""Few runs share so many, and only those are read completely."""
MAX_NAMED = 5
MADE = re.compile(r"-(\d{8}-\d{6})-[0-9a-f]{6}$")
CLOCK_SECONDS = 60.0
"""How far a clock may have been put back between two runs."""


def unused_keys(record: RunRecord) -> list[Sample]:
    """How many keys were set of which the run made no use (one sample; none before the worker has said so)."""
    keys = record.resolved.ignored_keys
    if keys is None:
        return []
    return [Sample(record.status.step, float(len(keys)), detail=", ".join(keys), keys=tuple(keys))]


def keys_without_effect(record: RunRecord) -> list[Sample]:
    """How many keys differ from an earlier run whose per-step losses are the same bit for bit (one sample)."""
    for other in _earlier_runs_alike(record):
        if named := differing_keys(other, record):
            shown = [f"{key} {old!r} -> {new!r}" for key, (old, new) in list(named.items())[:MAX_NAMED]]
            more = [f"{len(named) - MAX_NAMED} more"] if len(named) > MAX_NAMED else []
            detail = f"{', '.join(shown + more)} (against {other.run.run_id})"
            return [Sample(record.status.step, float(len(named)), detail=detail)]
    return []


def differing_keys(first: RunRecord, second: RunRecord) -> dict[str, tuple[Any, Any]]:
    """Return the keys that should change how a run trains and differ between two, with both values."""
    old, new = (_settled(record) for record in (first, second))
    keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return {key: (old.get(key), new.get(key)) for key in keys if not is_beside_training(key)}


def _settled(record: RunRecord) -> dict[str, Any]:
    """Return a run's configuration by key, with what a built-in model's, or loss's, arguments are if left out."""
    values = record.config.model_dump(mode="json")
    model, loss = record.config.model, record.config.loss
    name, args = (loss, {}) if isinstance(loss, str) else (loss.use, loss.args)
    if name in LOSSES:
        values["loss"] = {"use": name, "args": LOSSES[name].model_validate(args).model_dump(mode="json")}
    if model is not None and model.use in MODELS:
        values["model"]["args"] = MODELS[model.use].model_validate(model.args).model_dump(mode="json")
    return flatten(values)


def trained_alike(first: RunRecord, second: RunRecord) -> bool:
    """Return whether both trained completely and the loss of every optimizer step is the same, bit for bit."""
    ends = [_told(record.metrics.tail(STEP_LOSS, 1)) for record in (first, second)]
    if not ends[0] or ends[0] != ends[1]:
        return False
    whole = {first.specification.kind, second.specification.kind} <= TRAINED_WHOLE
    return whole and _losses_digest(first) == _losses_digest(second)


def _earlier_runs_alike(record: RunRecord) -> Iterator[RunRecord]:
    """Yield the project's runs that trained as this one, which has ended, and began before it."""
    if record.specification.kind not in TRAINED_WHOLE or not record.status.state.is_ended:
        return
    own = record.metrics.head(STEP_LOSS, FIRST_LOSSES)
    if not own:
        return
    for path in sorted(record.run.path.parent.iterdir()):
        if _made_at(path.name) > own[0].time + CLOCK_SECONDS:
            continue  # of many runs none that is later has to be read
        try:
            files = [f"{path / METRICS}{end}" for end in ("", "-wal")]
            found = while_unchanged(("beginning", path), files, partial(_beginning, path))
            other = RunRecord(RunDirectory(path))
            began_before = bool(found) and found[0].time < own[0].time
            if began_before and _told(found) == _told(own) and trained_alike(other, record):
                yield other
        except TrainwrightError:  # a damaged record is reported where that run is requested
            continue


def _made_at(run_id: str) -> float:
    """Return the Unix seconds in a run's id; 0 where it has none."""
    found = MADE.search(run_id)
    try:
        return datetime.strptime(f"{found[1]}+0000", "%Y%m%d-%H%M%S%z").timestamp() if found else 0.0
    except ValueError:
        return 0.0


def _beginning(run: Path) -> list[Point]:
    return MetricStore(run / METRICS).head(STEP_LOSS, FIRST_LOSSES)


def _losses_digest(record: RunRecord) -> str:
    return digest_json(_told(record.metrics.series(STEP_LOSS)))


def _told(points: list[Point]) -> list[tuple[int, str]]:
    return [(point.step, repr(point.value)) for point in points]


def is_beside_training(key: str) -> bool:
    """Return whether a key is of storage, evaluation or speed, and may leave the losses the same."""
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in BESIDE_TRAINING)
