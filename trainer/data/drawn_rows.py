"""Rows drawn from a split as plain arrays, to compare them: a sample of bounded number, size and reading time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from trainwright.trainer.base import seeding
from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.near_duplicates import inputs_of, target_of
from trainwright.trainer.data.tensors import IGNORED, TensorSamples

READING_SECONDS, WAITING_SECONDS = 2.0, 20.0
"""Of this thread's processor time and on the clock, for one split: images that are decoded one by one are slow.

A busy machine takes the clock's seconds for a few rows; the rows that are compared are not to hang on that.
"""
MAX_SHARE = 0.2
"""Of either time that one row uses up: a machine that stands still for half a minute ends no reading."""
ROWS_AT_ONCE = 256
SIDE = 32
"""Rows and columns at most of an image that is compared: larger ones are averaged over areas."""
WIDTH = 2048
"""Numbers at most of a row that is no image: of longer ones evenly spaced numbers."""
BUCKETS = 64
"""Numbers that represent a sequence of token ids: how often each bucket of ids comes."""
SEQUENCE = 16
"""Whole numbers in a row from this length on are token ids."""
CHANNELS = (1, 3, 4)
MAX_TARGETS = 64


@dataclass(frozen=True)
class Drawn:
    """Rows of a split."""

    indices: Array
    """In the split, (rows,)."""
    inputs: Array
    """(rows, numbers), or (rows, channels, height, width)."""
    targets: Array | None
    """(rows, targets): whole numbers are classes; None where rows have none of at most MAX_TARGETS numbers."""


def draw(samples: Any, seed: int, split: str, most: int) -> Drawn | None:
    """Read at most so many rows, always the same ones unless time runs out; None where inputs are not numbers alone.

    Random augmentation is keyed to the sample as in its fingerprint, and the generators are left alone.
    """
    inputs: list[Array] = []
    targets: list[Any] = []
    indices: list[int] = []
    has_worked, has_waited = _bound(time.thread_time, READING_SECONDS), _bound(time.monotonic, WAITING_SECONDS)
    with seeding.preserved():
        for index, sample in _read(samples, seed, seeding.of_split(seeding.SPLITS.index(split)), most):
            found = _numbers_of(inputs_of(sample))
            if found is None:
                return None
            indices.append(index)
            inputs.append(found)
            targets.append(_target_of(sample))
            if has_worked() | has_waited():  # both are asked after every row, to know what the row cost
                break
    if not inputs:
        return None
    return Drawn(np.array(indices), _stacked(inputs), _stacked_targets(targets))


def _bound(clock: Callable[[], float], seconds: float) -> Callable[[], bool]:
    """Return a function to call after each row, which says whether the rows have used up these seconds of a clock."""
    last, used = clock(), 0.0

    def is_over() -> bool:
        nonlocal last, used
        now = clock()
        last, used = now, used + min(now - last, seconds * MAX_SHARE)
        return used > seconds

    return is_over


def _read(samples: Any, seed: int, key: tuple[int, ...], most: int) -> Iterator[tuple[int, Any]]:
    if isinstance(samples, torch.utils.data.IterableDataset):
        seeding.seed_sample(seed, 0, *key)
        yield from zip(range(most), samples, strict=False)
        return
    size = len(samples)
    chosen = np.arange(size)
    if size > most:
        chosen = np.sort(np.random.default_rng([size, most]).choice(size, most, replace=False))
    if type(samples) is TensorSamples:
        for start in range(0, len(chosen), ROWS_AT_ONCE):
            part = chosen[start : start + ROWS_AT_ONCE]
            yield from zip(part.tolist(), zip(*samples.gather(torch.from_numpy(part)), strict=True), strict=True)
        return
    for index in chosen.tolist():
        seeding.seed_sample(seed, 0, index, *key)
        yield index, samples[index]


def _numbers_of(value: Any) -> Array | None:
    """Return a row's inputs as one vector, or an image (channels, height, width); None where they are no numbers."""
    parts = [_array(part) for part in _parts(value)]
    arrays = [part for part in parts if part is not None]
    if not arrays or len(arrays) < len(parts):
        return None
    if len(arrays) == 1:
        return _image(arrays[0]) if arrays[0].ndim in {2, 3} else _vector(arrays[0])
    return np.concatenate([_vector(part) for part in arrays])


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [part for key in sorted(value, key=str) for part in _parts(value[key])]
    if isinstance(value, tuple | list) and not all(isinstance(part, int | float) for part in value):
        return [part for one in value for part in _parts(one)]
    return [value]


def _array(value: Any) -> Array | None:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = value.float().numpy() if value.is_floating_point() else value.numpy()
    found = np.asarray(value) if isinstance(value, np.ndarray | np.generic | int | float | tuple | list) else None
    return found if found is not None and found.dtype.kind in "fiub" and found.size else None


def _vector(array: Array) -> Array:
    if array.dtype.kind == "i" and array.ndim == 1 and array.size >= SEQUENCE:
        counted = np.bincount(array.astype(np.int64) * 2654435761 % 2**31 % BUCKETS, minlength=BUCKETS)
        return (counted / array.size).astype(np.float32)
    flat = array.reshape(-1)
    return _finite(flat[:: -(-flat.size // WIDTH)])


def _image(array: Array) -> Array:
    if array.ndim == 3 and array.shape[0] not in CHANNELS and array.shape[2] in CHANNELS:
        array = np.moveaxis(array, 2, 0)
    if array.ndim == 3 and array.shape[0] not in CHANNELS:
        return _vector(array)
    image = _finite(array.reshape(-1, *array.shape[-2:]))
    height, width = (min(side, SIDE) for side in image.shape[1:])
    return resized(image, height, width)


def resized(images: Array, height: int, width: int) -> Array:
    """Return images (..., height, width) of another size, each pixel the mean of the area that it covers."""
    if images.shape[-2:] == (height, width):
        return images
    rows, columns = _areas(images.shape[-2], height), _areas(images.shape[-1], width)
    found: Array = rows @ images @ columns.T
    return found


@lru_cache(maxsize=256)
def _areas(size: int, wanted: int) -> Array:
    """Return the weights of `size` pixels in each of the `wanted` ones, (wanted, size)."""
    edges = np.arange(wanted + 1) * size / wanted
    low, high = edges[:-1, None], edges[1:, None]
    pixel = np.arange(size)[None]
    overlap = np.clip(np.minimum(high, pixel + 1) - np.maximum(low, pixel), 0, None)
    weights: Array = (overlap / overlap.sum(axis=1, keepdims=True)).astype(np.float32)
    return weights


def _finite(values: Array) -> Array:
    return np.nan_to_num(values.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)


def _stacked(inputs: list[Array]) -> Array:
    """Return the rows as one array; where shapes differ, images of the first one's size or vectors filled with 0."""
    if len({one.shape for one in inputs}) == 1:
        return np.stack(inputs)
    if all(one.ndim == 3 and len(one) == len(inputs[0]) for one in inputs):
        return np.stack([resized(one, *inputs[0].shape[1:]) for one in inputs])
    flat = [one.reshape(-1)[:WIDTH] for one in inputs]
    width = max(len(one) for one in flat)
    return np.stack([np.pad(one, (0, width - len(one))) for one in flat])


def _target_of(sample: Any) -> Array | None:
    target = target_of(sample)
    found = None if target is None else _array(target)
    return found.reshape(-1) if found is not None and found.size <= MAX_TARGETS else None


def _stacked_targets(targets: list[Any]) -> Array | None:
    if any(one is None for one in targets) or len({one.shape for one in targets}) != 1:
        return None
    found = np.stack(targets)
    if found.dtype.kind == "f" and np.isin(found, (0.0, 1.0)).all():
        found = found.astype(np.int64)  # yes or no, for a loss of single logits
    several = found.dtype.kind != "f" and found.shape[1] > 1 and not np.isin(found, (0, 1)).all()
    return None if several or (found == IGNORED).any() else found
