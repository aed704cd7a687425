"""Splits as they come from the source: before standardisation, collation and any record of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trainwright.trainer.acceleration.precision import apply_precision
from trainwright.trainer.assembly.assemble import choose_device
from trainwright.trainer.assembly.build import build_loss, call_data, call_task
from trainwright.trainer.assembly.metrics import build_metric
from trainwright.trainer.assembly.target import load_built_in
from trainwright.trainer.base import seeding
from trainwright.trainer.base.arrays import Array
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.assemble import divide, user_parts
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.series import Series
from trainwright.trainer.data.split_methods.facts import numbers_of
from trainwright.trainer.data.split_methods.rows import Indices
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.frameworks.framework import handed_over
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.run import RunSpecification
from trainwright.trainer.user_code.context import TASK_DATA_SEED, Context
from trainwright.trainer.user_code.entries import is_entry
from trainwright.trainer.user_code.guard import user_code

ROWS_AT_A_TIME = 2.0
"""Mean rows of a time, from which on a split by time is of whole times."""
HORIZONS_OF_A_BLOCK, BLOCKS = 3, 10
"""Horizons that a block of times spans at most, if as many blocks can be had of a split."""

Groups = dict[str, np.ndarray[Any, np.dtype[np.int64]]]
"""Number of each sample's group, (samples,), by split."""


@dataclass(frozen=True)
class RawSplits:
    """The samples of each split, and how they are batched."""

    samples: dict[str, Any]
    data_seed: int
    batch_size: int | None
    """None where each item is a batch already."""
    groups: Groups = field(default_factory=dict)
    """Where rows are split by groups, or by times."""
    grouped_by: str = "groups"
    series: Series | None = None
    """Rows in order of time, where samples are windows of them."""


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
        splits = partial(RawSplits, data_seed=context.data_seed, batch_size=config.loader.batch_size)
        return _of_data(config, root, splits)
    if config.trainer is not None:
        framework, samples = handed_over(config, root)
        samples = {name: framework.read(part) for name, part in samples.items()}
        return RawSplits(samples, TASK_DATA_SEED, config.loader.batch_size)
    build_loss(config, root)
    for metric in config.metrics:
        build_metric(metric, root)
    given, _ = call_task(config, root, context)
    with user_code("Reading samples of the task", root):
        samples = user_parts(given, None).samples
    return RawSplits(samples, context.data_seed, given.get("batch_size", config.loader.batch_size))


def _of_data(config: TrainingConfig, root: Path, splits: Callable[..., RawSplits]) -> RawSplits:
    """Return the samples of each split, the groups that they are of, and what these are."""
    section = config.data
    assert section is not None, "called where there is one"  # noqa: S101
    if is_entry(section.use):
        data = call_data(section, root)
        with user_code(f"Reading samples of data `{section.use}`", root):
            own = user_parts(data, section.split)
        return splits(own.samples, **_groups(section.split, own.key, own.places))
    found = load_built_in(config, root)
    if isinstance(found, Splits):
        return splits(found.samples)
    parts = divide(found.samples, section.split, found)
    if found.series is not None:
        groups, grouped_by = _blocks(found.series, parts)
        return splits(parts, groups=groups, grouped_by=grouped_by, series=found.series)
    places = {name: np.asarray(part.rows) for name, part in parts.items() if part.rows is not None}
    return splits(parts, **_groups(section.split, found.keys.get(section.split.key or ""), places))


def _groups(section: SplitSection, key: Array | None, places: Mapping[str, Indices]) -> dict[str, Any]:
    """Return the numbers of the groups, or of the shared times, of each split's rows, and what these are."""
    if key is None or section.by not in {"group", "time"}:
        return {}
    groups = numbers_of(key, places)
    if section.by == "group":
        return {"groups": groups}
    return {"groups": groups if any(map(_are_shared, groups.values())) else {}, "grouped_by": "times"}


def _are_shared(times: np.ndarray[Any, np.dtype[np.int64]]) -> bool:
    """Return whether so many rows have the time of another that what each time has in store makes rows alike."""
    return len(np.unique(times)) <= len(times) / ROWS_AT_A_TIME


def _blocks(series: Series, parts: Mapping[str, Any]) -> tuple[Groups, str]:
    """Return for each split's windows the number of their block of consecutive times, (windows,), and what that is.

    Windows whose horizons overlap err alike, and so do neighbours: drawn one by one they claim to know far more than
    they do. Whole blocks are drawn instead, each longer than a horizon (Künsch 1989).
    """
    # A window is at the time of the first row that it forecasts.
    times = {name: series.times[np.asarray(part.rows) + series.window] for name, part in parts.items()}
    places = {name: np.unique(of, return_inverse=True)[1].reshape(-1) for name, of in times.items()}
    fewest = min(int(of.max()) + 1 for name, of in places.items() if name != "train" or len(places) == 1)
    length = max(series.horizon, min(HORIZONS_OF_A_BLOCK * series.horizon, fewest // BLOCKS))
    return {name: of // length for name, of in places.items()}, "times" if length == 1 else f"blocks of {length} times"
