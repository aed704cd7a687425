"""Fingerprint of a split: a digest per sample, class counts, and its defects (REPRO-4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from blake3 import blake3
from torch import Tensor

from trainwright.trainer.base import seeding
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data import rows
from trainwright.trainer.data.near_duplicates import KNOWN_TO_NUMPY, Sketches, inputs_of, target_of
from trainwright.trainer.data.tensors import InMemory, KnownSamples, TensorSamples
from trainwright.trainer.user_code.clock import clock

MAX_SAMPLES_READ = 20_000
MAX_CLASSES_COUNTED = 1000
MAX_LABELS = 100_000
"""Different ones that are counted over all samples in memory, rather than over those read."""
MAX_NAMED = 20
PLAIN = (str, bytes, bool, int, float, complex, np.generic)
"""Types whose repr says all there is to a value."""


@dataclass(frozen=True)
class SplitRecord:
    """Findings in one split."""

    size: int
    digests: list[str]
    """One per sample read, in order."""
    sampled: bool
    """Whether only some of the samples were read."""
    labels: Counter[int] = field(default_factory=Counter)
    non_finite: list[int] = field(default_factory=list)
    """Indices of samples with NaN or infinity, at most MAX_NAMED."""
    missing: list[int] = field(default_factory=list)
    """Indices of samples that are None, at most MAX_NAMED."""
    sketches: Sketches = field(default_factory=Sketches)
    """One per sample read, in order, to find almost equal ones."""
    content: str | None = None
    """Digest of every sample, where not every one was read by itself and all are in memory."""
    inputs: list[str] = field(default_factory=list)
    """Digest of each sample's inputs, where they are read one by one."""

    @property
    def fingerprint(self) -> str:
        """Digest of the size and of every sample read, in order."""
        return digest_json([self.size, self.digests if self.content is None else self.content])

    @property
    def classes(self) -> dict[str, int] | None:
        """Samples by class; None where they have none, or too many to list."""
        listed = 0 < len(self.labels) <= MAX_CLASSES_COUNTED
        return {str(one): self.labels[one] for one in sorted(self.labels)} if listed else None

    def note(self, index: int, sample: Any) -> None:
        """Take a sample into the record."""
        if sample is None and len(self.missing) < MAX_NAMED:
            self.missing.append(index)
        digest, inputs = sample_digests(sample)
        self.digests.append(digest)
        self.inputs.append(inputs)
        self.sketches.note(index, sample)
        if (label := label_of(sample)) is not None:
            self.labels[label] += 1
        if len(self.non_finite) < MAX_NAMED and not _is_finite(sample):
            self.non_finite.append(index)


EMPTY = SplitRecord(size=0, digests=[], sampled=False)


def record_split(samples: Any, seed: int, split: str = "train", most: int | None = None) -> SplitRecord:
    """Read a split's samples (all, or MAX_SAMPLES_READ drawn at random, always the same ones) and describe them.

    Of these, only the first `most` are read.

    Random augmentation is keyed to (seed, split, 0, index), so that the record of a split is the same each time.
    Samples in memory as tensors are described as arrays, all of them except for their sketches.
    """
    if type(samples) is TensorSamples:
        with clock.paused():
            return replace(record_rows(samples), non_finite=rows.non_finite(samples, MAX_NAMED))
    if isinstance(samples, KnownSamples):
        with clock.paused():
            return samples.record()
    most = MAX_SAMPLES_READ if most is None else most
    key = seeding.of_split(seeding.SPLITS.index(split))
    if isinstance(samples, torch.utils.data.IterableDataset):
        return _record_stream(samples, seed, key, most)
    size = len(samples)
    chosen = chosen_rows(size)[:most].tolist()
    record = SplitRecord(size, [], sampled=len(chosen) < size)
    with seeding.preserved(), clock.each_call_alone():
        each = samples.each(chosen) if isinstance(samples, InMemory) else _keyed(samples, chosen, seed, key)
        for index, sample in zip(chosen, each, strict=True):
            with clock.paused():
                record.note(index, sample)
    return record


def record_rows(samples: TensorSamples, *, closely: bool = True) -> SplitRecord:
    """Describe samples in memory, all of them but for their sketches; without those where not looked at closely.

    Whether all numbers are finite is left to the caller, who may know.
    """
    size, chosen = len(samples), chosen_rows(len(samples))
    sampled = len(chosen) < size
    labels = rows.labels_of(samples, MAX_LABELS)
    if labels is None and sampled:
        labels = rows.labels_of(samples.subset(torch.from_numpy(chosen)), MAX_LABELS)
    return SplitRecord(
        size,
        rows.row_digests(samples, chosen),
        sampled,
        Counter(labels),
        sketches=Sketches.of_rows(samples, chosen) if closely else Sketches(),
        content=rows.content_digest(samples) if sampled else None,
    )


def chosen_rows(size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the samples to read. Evenly spaced ones would never be neighbours, which in many files are alike."""
    if size <= MAX_SAMPLES_READ:
        return np.arange(size)
    return np.sort(np.random.default_rng(size).choice(size, MAX_SAMPLES_READ, replace=False))


def _keyed(samples: Any, indices: list[int], seed: int, key: tuple[int, ...]) -> Iterator[Any]:
    for index in indices:
        clock.next_call()
        seeding.seed_sample(seed, 0, index, *key)
        yield samples[index]


def _record_stream(samples: Any, seed: int, key: tuple[int, ...], most: int) -> SplitRecord:
    """Record a stream's samples, at most so many. Raises DataError when their number is not its length."""
    size = len(samples) if hasattr(samples, "__len__") else None
    record = SplitRecord(size or 0, [], sampled=size is None or size > most)
    with seeding.preserved(), clock.each_call_alone():
        seeding.seed_sample(seed, 0, *key)
        for number, sample in enumerate(samples):
            if number == size:
                raise uneven_stream(samples, f"yields more than {size} samples")
            if number == most:
                break
            with clock.paused():
                record.note(number, sample)
            clock.next_call()
    read = len(record.digests)
    if size is not None and read < min(size, most):
        raise uneven_stream(samples, f"ends after {read} samples")
    return record


def uneven_stream(samples: Any, what: str) -> DataError:
    """Return the error of a stream that yields fewer or more than it says."""
    return DataError(
        f"The stream {type(samples).__name__} {what}; its `__len__` says {len(samples)}.",
        remedy="Let `__len__` be the number of samples that one epoch yields, and yield as many: "
        "itertools.islice(samples, number) ends an endless stream.",
    )


def sample_digests(sample: Any) -> tuple[str, str]:
    """Return `sample_digest` of a sample, and a digest of its inputs: another target makes no other row of it."""
    if isinstance(sample, tuple | list) and len(sample) > 1:
        hasher = blake3(f"S{len(sample)}".encode())  # as `_parts` begins: each value is read once
        _update(hasher, sample, sample[:-1])
        inputs = hasher.hexdigest(length=16)
        _update(hasher, sample, sample[-1:])
        return hasher.hexdigest(length=16), inputs
    digest, rest = sample_digest(sample), inputs_of(sample)
    return digest, digest if rest is sample else sample_digest(rest)


def sample_digest(sample: Any) -> str:
    """Return 32 hex digits of the sample's content: types, shapes and bytes.

    Raises DataError for an object whose content cannot be read.
    """
    hasher = blake3()
    _update(hasher, sample, [sample])
    return hasher.hexdigest(length=16)


def _update(hasher: Any, sample: Any, values: Sequence[Any]) -> None:
    try:
        for value in values:
            for part in _parts(value):
                hasher.update(part)
    except RecursionError as error:
        raise DataError(
            f"A sample of type {type(sample).__name__} refers to itself: its content cannot be read to an end.",
            remedy="Return tensors, arrays, numbers, text or dataclasses that hold them.",
        ) from error


def label_of(sample: Any) -> int | None:
    """Return the class of an (inputs, label) sample, or None when it has no single integer label."""
    label = target_of(sample)
    if isinstance(label, torch.Tensor | np.ndarray | np.generic):
        whole = label.numel() if isinstance(label, torch.Tensor) else label.size
        kind = str(label.dtype)
        return int(label) if whole == 1 and ("int" in kind or "bool" in kind) else None
    return label if isinstance(label, int) else None


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, torch.Tensor):
        yield f"T{value.dtype}{tuple(value.shape)}".encode()
        yield _bytes_of(value)
    elif isinstance(value, np.ndarray) and value.dtype == object:
        yield f"O{value.shape}".encode()
        yield from _parts(value.tolist())
    elif isinstance(value, np.ndarray):
        yield f"N{value.dtype}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield f"K{key}".encode()
            yield from _parts(value[key])
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield f"S{len(value)}".encode()
        for item in value:
            yield from _parts(item)
    elif value is None or isinstance(value, PLAIN):
        yield value if isinstance(value, bytes) else f"{type(value).__name__}{value!r}".encode()
    else:
        yield from _parts_of_object(value)


def _parts_of_object(value: Any) -> Iterator[bytes]:
    """Read an object's content, where its repr is its address or omits values."""
    if hasattr(value, "to_dict"):
        yield from _parts(value.to_dict())  # a graph of torch_geometric, for example
    elif hasattr(value, "__array_interface__"):
        yield from _parts(np.asarray(value))  # an image of Pillow, for example
    elif is_dataclass(value) or " at 0x" in repr(value):
        yield type(value).__name__.encode()
        yield from _parts(_attributes(value))
    else:
        yield f"{type(value).__name__}{value!r}".encode()


def _attributes(value: Any) -> dict[str, Any]:
    """Return an object's attributes. Raises DataError if there are none."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
    if not held:
        raise DataError(
            f"A sample holds an object of type {type(value).__name__}, of which nothing can be read: whether the data "
            "is the same next time could not be determined.",
            remedy="Return tensors, arrays, numbers, text or dataclasses, or give the type a __repr__ of its content.",
        )
    return held


def _bytes_of(tensor: torch.Tensor) -> bytes:
    if tensor.dtype in KNOWN_TO_NUMPY or not tensor.is_floating_point():
        return tensor.numpy(force=True).tobytes()
    plain = tensor.detach().cpu().contiguous()
    if plain.numel() == 1:  # a row of a column may keep the column's stride, which no view of bytes can have
        plain = plain.reshape(())
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def _is_finite(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not value.is_floating_point() or bool(torch.isfinite(value).all())
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())
    if isinstance(value, Mapping):
        return all(_is_finite(item) for item in value.values())
    if isinstance(value, tuple | list):
        return all(_is_finite(item) for item in value)
    return not isinstance(value, float) or bool(np.isfinite(value))


def weights_digest(state: dict[str, Any], known: Mapping[str, str] | None = None) -> str:
    """Return the digest of a model's state: names, types, shapes and bytes, sorted by name.

    Args:
        known: `sample_digest` of further tensors by name, that are not at hand.
    """
    digests = {name: sample_digest(value) for name, value in state.items() if isinstance(value, Tensor)}
    return digest_json([list(each) for each in sorted({**(known or {}), **digests}.items())])
