"""Splits as they come from the source: before standardisation, collation and any record of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainwright.trainer.acceleration.precision import apply_precision
from trainwright.trainer.assembly.assemble import choose_device
from trainwright.trainer.assembly.build import build_loss, call_data, call_task
from trainwright.trainer.assembly.metrics import build_metric
from trainwright.trainer.assembly.target import load_built_in
from trainwright.trainer.base import seeding
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.assemble import divide, user_parts
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.frameworks.framework import handed_over
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.run import RunSpecification
from trainwright.trainer.user_code.context import TASK_DATA_SEED, Context
from trainwright.trainer.user_code.entries import is_entry
from trainwright.trainer.user_code.guard import user_code

ROWS_AT_A_TIME = 2.0
"""Mean rows of a time, from which on a split by time is of whole times."""


@dataclass(frozen=True)
class RawSplits:
    """The samples of each split, and how they are batched."""

    samples: dict[str, Any]
    data_seed: int
    batch_size: int | None
    """None where each item is a batch already."""
    groups: dict[str, np.ndarray[Any, np.dtype[np.int64]]] = field(default_factory=dict)
    """Number of each sample's group by split, (samples,), where a source's rows are split by groups, or by times."""
    grouped_by: str = "groups"


def build_raw_splits(specification: RunSpecification) -> RawSplits:
    """Build the data of a run in a process of its own, under the run's settings and seeds.

    A built-in source runs no user code. Of a task everything is built, as the run does.

    Raises:
        ConfigurationError, UserCodeError, DataError: as the run would.
    """
    return raw_splits_of(specification.config, Path(specification.code_root), specification.exemptions)


def raw_splits_of(config: TrainingConfig, root: Path, exemptions: Sequence[str] = ()) -> RawSplits:
    """Build the data of a configuration. Raises as `build_raw_splits`."""
    device = choose_device(config)
    context = Context(config.seed, root, device.type)
    determinism.apply_settings(config.reproducibility, list(exemptions))
    apply_precision(config.training, device)
    seeding.seed_everything(config.seed)
    if config.data is not None:
        samples, groups = _of_data(config, root)
        grouped_by = "times" if config.data.split.by == "time" else "groups"
        return RawSplits(samples, context.data_seed, config.loader.batch_size, groups, grouped_by)
    if config.trainer is not None:
        _, samples = handed_over(config, root)
        return RawSplits(samples, TASK_DATA_SEED, config.loader.batch_size)
    build_loss(config, root)
    for metric in config.metrics:
        build_metric(metric, root)
    given, _ = call_task(config, root, context)
    with user_code("Reading samples of the task", root):
        samples, _ = user_parts(given, None)
    return RawSplits(samples, context.data_seed, given.get("batch_size", config.loader.batch_size))


def _of_data(config: TrainingConfig, root: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the samples of each split, and the groups that they are of."""
    section = config.data
    assert section is not None, "called where there is one"  # noqa: S101
    if is_entry(section.use):
        data = call_data(section, root)
        with user_code(f"Reading samples of data `{section.use}`", root):
            return user_parts(data, section.split)[0], {}
    found = load_built_in(config, root)
    if isinstance(found, Splits):
        return found.samples, {}
    parts = divide(found.samples, section.split, found)
    keys = found.keys.get(section.split.key or "") if section.split.by in {"group", "time"} else None
    if found.series is not None:
        keys = found.series.times[found.series.window :]  # of the first row that the window from each row on forecasts
    if keys is None:
        return parts, {}
    numbers = np.unique(keys.astype(str), return_inverse=True)[1].reshape(-1)
    groups = {name: numbers[np.asarray(part.rows)] for name, part in parts.items() if part.rows is not None}
    is_by_row = section.split.by == "time" and not any(map(_are_shared, groups.values()))
    return parts, {} if is_by_row else groups


def _are_shared(times: np.ndarray[Any, np.dtype[np.int64]]) -> bool:
    """Return whether so many rows have the time of another that what each time has in store makes rows alike."""
    return len(np.unique(times)) <= len(times) / ROWS_AT_A_TIME
