"""Samples made ready: split, standardised on the train split, recorded, and checked before a step is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data import mapped, rows
from trainwright.trainer.data.fingerprint import (
    MAX_NAMED,
    MAX_SAMPLES_READ,
    label_of,
    record_rows,
    record_split,
    sample_digests,
)
from trainwright.trainer.data.first_look import FirstLook, Found
from trainwright.trainer.data.images.samples import ImageSamples, picture_parts, picture_splits
from trainwright.trainer.data.leaks.copies import without_copies
from trainwright.trainer.data.marks import Known, marks_from, marks_of
from trainwright.trainer.data.order import Part, without_key
from trainwright.trainer.data.own_samples import holds_none, no_sample, not_a_data_set, require_sound
from trainwright.trainer.data.preprocessing import Preprocessing, Unfitted, restored
from trainwright.trainer.data.sections import LEAVE_COPIES, SplitSection
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.split_keys import OwnParts, key_off, read_keys
from trainwright.trainer.data.split_methods.by_time import rows_after_end
from trainwright.trainer.data.split_methods.facts import facts_of, grouped
from trainwright.trainer.data.split_methods.rows import NAMES, Rows
from trainwright.trainer.data.splits import Look, Splits, split_indices, split_rows, split_units
from trainwright.trainer.data.tensors import KnownSamples, TensorSamples, in_memory
from trainwright.trainer.user_code.clock import clock


def from_loaded(
    loaded: Loaded,
    section: SplitSection,
    *,
    source: str,
    args: Mapping[str, Any] | None = None,
    looks: FirstLook | None = None,
) -> Splits:
    """Split a built-in source's samples, and fit its preprocessing on the train split where it has one.

    The splits share the samples' memory, which stays as the source has it: batches are prepared on their way out.

    Args:
        loaded: samples not yet split.
        section: how to split them.
        source: name of the source.
        args: the source's arguments.
        looks: a FirstLook, with an earlier run's findings in the same large file.
    """
    if isinstance(loaded.samples, ImageSamples):
        return picture_splits(loaded, section, source)
    samples, unfitted = loaded.samples, loaded.preprocessing
    look, found = _first_look(loaded, section, {"source": source, "args": dict(args or {})}, looks)
    series = loaded.series
    if found is None and series is None and not (unfitted is not None and unfitted.takes_missing):
        _require_finite(rows.non_finite(samples, MAX_NAMED))
    parts = divide(samples, section, loaded) if found is None else _chosen(samples, found.splits)
    places = _places(parts)
    told = places if series is None else {name: series.target_rows(starts) for name, starts in places.items()}
    key = loaded.keys.get(section.key or "")
    facts, groups = facts_of(section, key, told), grouped(section, key, told)
    train = parts["train"] if series is None else series.as_samples(series.rows_of(places["train"]))
    preprocessing = _fitted(unfitted, train, found)
    if preprocessing is not None:
        samples = (samples if series is None else series).prepared_by(preprocessing)
        parts = {name: samples.subset(part.rows) for name, part in parts.items()}
    if series is None:
        records = {name: record_rows(part, closely=found is None) for name, part in parts.items()}
    else:
        records = {name: series.record(part) for name, part in parts.items()}
    if look is not None:
        look = replace(
            look, found=found or Found(_places(parts), preprocessing.record() if preprocessing is not None else None)
        )
    return Splits(
        parts,
        records,
        source,
        loaded.class_names,
        loaded.feature_names,
        preprocessing,
        loaded.schema,
        loaded.files,
        section.describe() | facts,
        look=look,
        skipped=loaded.skipped,
        understood=_left_out(samples, parts, section, loaded) if series is None else series.told(parts, section),
        series=series,
        groups=groups.numbers,
        group_marks=groups.marks,
        placed_in=loaded.placed_in,
        target_names=loaded.target_names,
    )


def _left_out(
    samples: TensorSamples, parts: Mapping[str, Any], section: SplitSection, loaded: Loaded
) -> dict[str, Any]:
    """Return how many rows were left out as copies, or since they are after the test, in words."""
    after = rows_after_end(loaded.keys.get(section.key or ""), section)
    left = len(samples) - sum(map(len, parts.values())) - after
    told = [f"{left} of {len(samples)} rows: copies of rows held out after them, or almost"] * section.drop_copies
    told += (
        [f"{after} of {len(samples)} rows: from {section.borders[-1]} on, where the borders end the test"]
        if (after and section.borders)
        else []
    )
    return {"left_out": "; ".join(told)} if told else {}


def _fitted(unfitted: Unfitted | None, train: TensorSamples, found: Found | None) -> Preprocessing | None:
    """Return the preprocessing, fitted on the train split now or by the first look."""
    if unfitted is None:
        return None
    known = found.preprocessing if found is not None else None
    return unfitted.fit(train) if known is None else restored(known)


def _first_look(
    loaded: Loaded, section: SplitSection, asked: dict[str, Any], looks: FirstLook | None
) -> tuple[Look | None, Found | None]:
    """Return the record of a large file's first look, and the findings of an earlier one."""
    if looks is None or not loaded.files or len(loaded.samples) <= MAX_SAMPLES_READ:
        return None, None
    if loaded.series is not None:
        return None, None
    key = looks.key(loaded.files, {**asked, "split": section.describe()})
    found = looks.find(key, len(loaded.samples))
    return Look(looks, key, is_known=found is not None), found


def _places(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: part.rows.numpy() for name, part in parts.items()}


def _chosen(samples: TensorSamples, places: Mapping[str, Any]) -> dict[str, Any]:
    return {name: samples.subset(torch.from_numpy(chosen)) for name, chosen in places.items() if len(chosen)}


def from_user(data: Any, section: SplitSection | None, *, source: str, seed: int, collates: bool = False) -> Splits:
    """Take user code's data: one data set (split here when there is a section), or several by split name.

    The augmented samples of the record are drawn from `seed`, which must not be the run's: runs that differ only
    in their seed have the same data.

    Args:
        collates: whether the user's code makes the batches, which may leave out samples that are None.

    Raises:
        DataError: not a data set, empty, or with values that are not finite.
        UserCodeError: a fault of the data set (own_samples.py).
    """
    own = user_parts(data, section)
    parts, key = own.samples, own.key
    records = {name: record_split(part, seed, name) for name, part in parts.items()}
    for name, record in records.items():
        if record.missing and not collates:
            raise no_sample(record.missing[0], f"the {name} split", parts[name])
        _require_finite(record.non_finite, name)
    if section is None or not own.divided:
        return Splits(parts, records, source)
    return Splits(
        parts,
        records,
        source,
        split=section.describe() | facts_of(section, key, own.places),
        groups=grouped(section, key, own.places).numbers,
    )


def withhold_test(splits: Splits, *, is_built_in: bool) -> None:
    """Take the test rows away, which training and tuning never see; their record stays.

    Rows of a built-in source are overwritten, since all splits share their memory; of mapped ones, the other splits get
    a file without them. Those of user code are dropped: where it keeps them itself, they are still there.

    Raises:
        DataError: the disk has no room for a large table without the test rows.
    """
    splits.shared_with_test = shared_rows(splits, "train", "test") | shared_rows(splits, "validation", "test")
    samples = splits.samples.pop("test", None)
    splits.groups.pop("test", None)
    if not is_built_in:
        return
    if splits.series is not None and samples is not None:
        splits.series.erase(samples)
    elif type(samples) is TensorSamples and samples.rows is not None and samples.is_mapped:
        base = mapped.without(samples.base, samples.rows)
        for part in splits.samples.values():
            part.move_to(base)
    elif isinstance(samples, KnownSamples) or (type(samples) is TensorSamples and samples.rows is not None):
        samples.erase()


def shared_rows(splits: Splits, one: str, other: str) -> set[str]:
    """Return the digests of samples that two splits share, where their records cover a part and all are in memory.

    Splits that were divided here share none, unless a column decides on each row by itself.
    """
    first, second = (splits.samples.get(name) for name in (one, other))
    sampled = any(splits.records[name].sampled for name in (one, other) if name in splits.records)
    apart = splits.split is not None and splits.split.get("by") not in LEAVE_COPIES
    if apart or not sampled:
        return set()
    if isinstance(first, KnownSamples) and isinstance(second, KnownSamples):
        return {*first.contents} & {*second.contents}
    if not type(first) is type(second) is TensorSamples:
        return set()
    return rows.shared_rows(first, second, MAX_SAMPLES_READ)


def user_parts(data: Any, section: SplitSection | None) -> OwnParts:
    """Return the samples of each split of user code's data, and what they are split by. Raises DataError."""
    given = dict(data) if isinstance(data, Mapping) else {"train": data}
    parts = {name: _as_samples(given[name], name) for name in NAMES if given.get(name) is not None}
    if "train" not in parts:
        raise DataError(f"The data has no `train` ({', '.join(given) or 'nothing'} given).", remedy="Return `train`.")
    if section is None:
        return OwnParts(parts, divided=False)
    if set(parts) != {"train"} or isinstance(parts["train"], IterableDataset):
        return read_keys(parts, section)
    return _divide_own(parts["train"], section)


def _as_samples(data: Any, name: str) -> Any:
    if (error := not_a_data_set(data, name)) is not None:
        raise error
    if isinstance(data, tuple | list) and len(data) == 2 and all(hasattr(part, "shape") for part in data):
        arrays = [part.to_numpy().copy() if hasattr(part, "to_numpy") else part for part in data]  # of tables
        data = TensorSamples(*map(torch.as_tensor, arrays))  # a pair (x, y)
    samples: Any = in_memory(data)
    is_stream = isinstance(samples, IterableDataset)
    if not is_stream and not (hasattr(samples, "__getitem__") and hasattr(samples, "__len__")):
        raise DataError(
            f"`{name}` is a {type(samples).__name__}; it needs __len__ and __getitem__ (or be an IterableDataset).",
            remedy="Return a torch Dataset, a list of samples, or a pair of arrays (x, y). Not a DataLoader: "
            "the engine makes the batches.",
        )
    require_sound(samples, name)
    if not is_stream and len(samples) == 0:
        raise DataError(f"The {name} split is empty.", remedy="Check the paths and filters of the data set.")
    return samples


def divide(samples: Any, section: SplitSection, loaded: Loaded | None = None) -> dict[str, Any]:
    """Return the samples of each split, equal ones in the same; they are chosen, and not copied. Raises DataError.

    Args:
        samples: of a source, or a user's arrays.
        section: how to split them.
        loaded: what else a source knows of them: the columns that the split needs.
    """
    if isinstance(samples, ImageSamples):
        return dict(picture_parts(samples, section, None if loaded is None else loaded.keys.get(section.key or "")))
    if loaded is not None and loaded.series is not None:
        return _chosen(samples, loaded.series.divided(section))
    with clock.paused():
        labels = samples.column(-1).reshape(-1).numpy() if rows.has_labels(samples) else None
        key = None if loaded is None else loaded.keys.get(section.key or "")
        known = Known() if loaded is None else Known.of(loaded, len(samples))
        contents, known_by = partial(_contents, samples, loaded), partial(marks_of, samples, known)
        found = split_rows(Rows(rows.unit_numbers(samples), labels, key, contents, known_by), section)
        if section.drop_copies:
            found = _without_copies(samples, found)
    return _chosen(samples, found)


def _divide_own(samples: Any, section: SplitSection) -> OwnParts:
    """Return a user's samples divided, the key that they are divided by taken off."""
    if isinstance(samples, TensorSamples):
        return OwnParts(divide(samples, section), divided=True)
    size, values, name = len(samples), None, None
    if size > MAX_SAMPLES_READ and section.by in {"random", "given"} and section.key is None:
        found = split_units(size, None, section)  # reading every sample twice would cost too much: no copies are found
    else:
        digests, inputs, labels_read, values, name = _read_all(samples, section)
        classes = labels_read if len(labels_read) == size else None
        found = split_indices(digests, classes, section, values, partial(marks_from, digests, inputs))
    places = {split: of for split, of in found.items() if len(of)}
    return OwnParts({split: Part(samples, of, name) for split, of in places.items()}, True, values, places)


def _without_copies(samples: TensorSamples, found: dict[str, Any]) -> dict[str, Any]:
    """Return the splits, each without the rows that are, or almost are, rows of those that are held out after it."""
    flat = samples.base[0].reshape(len(samples.base[0]), -1).numpy()
    places = np.arange(len(flat)) if samples.rows is None else samples.rows.numpy()
    for number, name in enumerate(NAMES[:2], start=1):
        held_out = np.concatenate([found[after] for after in NAMES[number:] if after in found] or [np.empty(0, int)])
        if len(held_out) and name in found:
            kept = without_copies(flat[places[found[name]]], flat[places[held_out]], name)
            found = found | {name: found[name][kept]}
    return found


def _contents(samples: TensorSamples, loaded: Loaded | None) -> Sequence[str]:
    """Return each row's content as text, (rows,): classes by name, since their numbers change with a new class."""
    if loaded is not None and loaded.contents is not None:
        return loaded.contents()
    names = loaded.class_names if loaded is not None and rows.has_labels(samples) else None
    of_inputs = samples if names is None else TensorSamples(*samples.base[:-1], rows=samples.rows)
    digests: list[str] = []
    for start in range(0, len(samples), MAX_SAMPLES_READ):
        digests += rows.row_digests(of_inputs, np.arange(start, min(start + MAX_SAMPLES_READ, len(samples))))
    if names is None:
        return digests
    labels = samples.column(-1).reshape(-1).tolist()
    return [f"{digest} {names[label]}" for digest, label in zip(digests, labels, strict=True)]


def _read_all(
    samples: Any, section: SplitSection
) -> tuple[list[str], list[str], list[int], np.ndarray[Any, Any] | None, str | None]:
    """Return digests of samples and of their inputs, the labels of those that have one, and what they are split by.

    At last the key of that, which is taken off the samples.
    """
    digests, inputs, labels, keys, name = [], [], [], [], None
    with seeding.preserved(), clock.each_call_alone():
        for index in range(len(samples)):
            clock.next_call()
            seeding.seed_sample(section.seed, 0, index)
            sample = samples[index]
            if section.key is not None and sample is not None:
                value, name = key_off(sample, section)
                keys.append(value)
                sample = without_key(sample, name)
            if holds_none(sample):
                raise no_sample(index, "the data", samples, sample)
            with clock.paused():
                content, rest = sample_digests(sample)
                digests.append(content)
                inputs.append(rest)
                label = label_of(sample)
            labels += [] if label is None else [label]
    return digests, inputs, labels, np.array(keys) if keys else None, name


def _require_finite(places: list[int], name: str = "data") -> None:
    if places:
        raise DataError(
            f"The {name} split has NaN or infinite values, first in samples {places[:5]}."
            if name != "data"
            else f"The data has NaN or infinite values, first in samples {places[:5]}.",
            remedy="Fill or drop these samples in the data set: one NaN would turn every weight into NaN.",
            details={"split": name, "samples": places},
        )
