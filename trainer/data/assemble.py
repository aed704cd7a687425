"""Samples made ready: split, standardised on the train split, recorded, and checked before a step is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import IterableDataset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data import rows
from trainwright.trainer.data.fingerprint import (
    MAX_NAMED,
    MAX_SAMPLES_READ,
    drawn_digests,
    label_of,
    record_rows,
    record_split,
    sample_digest,
)
from trainwright.trainer.data.first_look import FirstLook, Found
from trainwright.trainer.data.order import Part
from trainwright.trainer.data.rows import measure, standardize
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.splits import NAMES, Look, Splits, split_indices, split_units
from trainwright.trainer.data.tensors import TensorSamples, in_memory
from trainwright.trainer.user_code.clock import clock


def from_loaded(
    loaded: Loaded,
    section: SplitSection,
    *,
    source: str,
    args: Mapping[str, Any] | None = None,
    looks: FirstLook | None = None,
) -> Splits:
    """Split a built-in source's samples and standardise its features where it asks for that.

    The samples are used up: they are standardised in place, and the splits share their memory.

    Args:
        loaded: samples not yet split.
        section: how to split them.
        source: name of the source.
        args: the source's arguments.
        looks: a FirstLook, with an earlier run's findings in the same large file.
    """
    samples, raw_type = loaded.samples, loaded.samples.base[0].dtype
    look, found = _first_look(loaded, section, {"source": source, "args": dict(args or {})}, looks)
    if found is None:
        _require_finite(rows.non_finite(samples, MAX_NAMED))
    parts = divide(samples, section) if found is None else _chosen(samples, found.splits)
    preprocessing = raw_test = None
    if loaded.standardize:
        raw_test = drawn_digests(parts["test"]) if "test" in parts else None
        known = found.preprocessing if found is not None else None
        preprocessing = known or measure(parts["train"], by_channel=loaded.by_channel)
        standardize(samples, preprocessing)
        parts = {name: TensorSamples(*samples.base, rows=part.rows) for name, part in parts.items()}
    records = {name: record_rows(part, closely=found is None) for name, part in parts.items()}
    if look is not None:
        look = replace(look, found=found or Found(_places(parts), preprocessing))
    return Splits(
        parts,
        records,
        source,
        loaded.class_names,
        loaded.feature_names,
        preprocessing,
        loaded.files,
        raw_test,
        section.model_dump(mode="json"),
        look=look,
        raw_type=raw_type,
    )


def _first_look(
    loaded: Loaded, section: SplitSection, asked: dict[str, Any], looks: FirstLook | None
) -> tuple[Look | None, Found | None]:
    """Return the record of a large file's first look, and the findings of an earlier one."""
    if looks is None or not loaded.files or len(loaded.samples) <= MAX_SAMPLES_READ:
        return None, None
    key = looks.key(loaded.files, {**asked, "split": section.model_dump(mode="json")})
    found = looks.find(key, len(loaded.samples))
    return Look(looks, key, is_known=found is not None), found


def _places(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: part.rows.numpy() for name, part in parts.items()}


def _chosen(samples: TensorSamples, places: Mapping[str, Any]) -> dict[str, Any]:
    return {name: samples.subset(torch.from_numpy(chosen)) for name, chosen in places.items() if len(chosen)}


def from_user(data: Any, section: SplitSection | None, *, source: str, seed: int) -> Splits:
    """Take user code's data: one data set (split here when there is a section), or several by split name.

    The augmented samples of the record are drawn from `seed`, which must not be the run's: runs that differ only
    in their seed have the same data.

    Raises:
        DataError: not a data set, empty, or with values that are not finite.
    """
    parts, divided = user_parts(data, section)
    records = {name: record_split(part, seed, name) for name, part in parts.items()}
    for name, record in records.items():
        _require_finite(record.non_finite, name)
    return Splits(parts, records, source, split=section.model_dump(mode="json") if divided and section else None)


def withhold_test(splits: Splits, *, is_built_in: bool) -> None:
    """Take the test rows away, which training and tuning never see; their record stays.

    Rows of a built-in source are overwritten, since all splits share their memory. Those of user code are dropped:
    where it keeps them itself, they are still there.
    """
    splits.shared_with_test = shared_rows(splits, "train", "test") | shared_rows(splits, "validation", "test")
    samples = splits.samples.pop("test", None)
    if is_built_in and type(samples) is TensorSamples and samples.rows is not None:
        for tensor in samples.base:
            tensor[samples.rows.long()] = 0


def shared_rows(splits: Splits, one: str, other: str) -> set[str]:
    """Return the digests of samples that two splits share, where their records cover a part and all are in memory.

    Splits that were divided here share none.
    """
    first, second = (splits.samples.get(name) for name in (one, other))
    sampled = any(splits.records[name].sampled for name in (one, other) if name in splits.records)
    if not (sampled and type(first) is type(second) is TensorSamples) or splits.split is not None:
        return set()
    return rows.shared_rows(first, second, MAX_SAMPLES_READ)


def user_parts(data: Any, section: SplitSection | None) -> tuple[dict[str, Any], bool]:
    """Return the samples of each split of user code's data, and whether they were divided here. Raises DataError."""
    given = dict(data) if isinstance(data, Mapping) else {"train": data}
    parts = {name: _as_samples(given[name], name) for name in NAMES if given.get(name) is not None}
    if "train" not in parts:
        raise DataError(f"The data has no `train` ({', '.join(given) or 'nothing'} given).", remedy="Return `train`.")
    if section is None or set(parts) != {"train"} or isinstance(parts["train"], IterableDataset):
        return parts, False
    return divide(parts["train"], section), True


def _as_samples(data: Any, name: str) -> Any:
    if isinstance(data, tuple | list) and len(data) == 2 and all(hasattr(part, "shape") for part in data):
        data = TensorSamples(*(torch.as_tensor(part) for part in data))  # a pair of arrays (x, y)
    samples = in_memory(data)
    if isinstance(samples, IterableDataset):
        return samples
    if not hasattr(samples, "__getitem__") or not hasattr(samples, "__len__"):
        raise DataError(
            f"`{name}` is a {type(samples).__name__}; it needs __len__ and __getitem__ (or be an IterableDataset).",
            remedy="Return a torch Dataset, a list of samples, or a pair of arrays (x, y). Not a DataLoader: "
            "the engine makes the batches.",
        )
    if len(samples) == 0:
        raise DataError(f"The {name} split is empty.", remedy="Check the paths and filters of the data set.")
    return samples


def divide(samples: Any, section: SplitSection) -> dict[str, Any]:
    """Return the samples of each split, equal ones in the same; they are chosen, and not copied. Raises DataError."""
    size = len(samples)
    if isinstance(samples, TensorSamples):
        with clock.paused():
            labels = samples.column(-1).reshape(-1).numpy() if rows.has_labels(samples) else None
            found = split_units(rows.unit_numbers(samples), labels, section)
        return _chosen(samples, found)
    if size > MAX_SAMPLES_READ:  # reading every sample twice would cost too much: copies are then not looked for
        found = split_units(size, None, section)
    else:
        digests, labels_read = _read_all(samples, section.seed)
        found = split_indices(digests, labels_read if len(labels_read) == size else None, section)
    return {name: Part(samples, places) for name, places in found.items() if len(places)}


def _read_all(samples: Any, seed: int) -> tuple[list[str], list[int]]:
    """Return the digest of each sample, and the labels of those that have one."""
    digests, labels = [], []
    with seeding.preserved(), clock.each_call_alone():
        for index in range(len(samples)):
            clock.next_call()
            seeding.seed_sample(seed, 0, index)
            sample = samples[index]
            with clock.paused():
                digests.append(sample_digest(sample))
                label = label_of(sample)
            labels += [] if label is None else [label]
    return digests, labels


def _require_finite(places: list[int], name: str = "data") -> None:
    if places:
        raise DataError(
            f"The {name} split has NaN or infinite values, first in samples {places[:5]}."
            if name != "data"
            else f"The data has NaN or infinite values, first in samples {places[:5]}.",
            remedy="Fill or drop these samples in the data set: one NaN would turn every weight into NaN.",
            details={"split": name, "samples": places},
        )
