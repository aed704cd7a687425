"""The nearest class mean of pictures, pixel by pixel: whoever loses to it has seen brightness and place, no more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.images.samples import ImageSamples
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence.rivals.fitted import Array, Fitted, UnfitError, is_one_class, targets_of

MAX_PICTURES = 20_000
"""Of the train split, evenly spaced."""
MAX_SECONDS = 10.0
"""Of reading the train split, and of each other."""
AT_ONCE = 256


def fit(splits: Splits, config: TrainingConfig) -> list[Fitted]:  # noqa: ARG001 - the form of a rival
    """Return the class means of pictures with one class each; none for other data. Raises UnfitError."""
    train = splits.samples["train"]
    if splits.series is not None or not _are_pictures(train) or not is_one_class(targets := targets_of(train)):
        return []
    chosen = np.unique(np.linspace(0, len(train) - 1, min(len(train), MAX_PICTURES)).astype(np.int64))
    targets = targets.reshape(-1).astype(np.int64)
    count = max(len(splits.class_names or ()), int(targets.max()) + 1)
    sums, sizes = 0.0, np.bincount(targets[chosen], minlength=count)
    for rows, pictures in _read(train, chosen):
        sums = sums + np.eye(count)[targets[rows]].T @ pictures
    means = sums / np.maximum(sizes, 1)[:, None]
    lacking = np.where(sizes, 0.0, np.inf)

    def outputs(samples: Any) -> Array:
        each = [_distances(pictures, means) for _, pictures in _read(samples, np.arange(len(samples)))]
        found: Array = np.concatenate(each) + lacking
        nearest = max(float(found.min(axis=1).mean()), 1e-12)
        return np.asarray(-np.nan_to_num(found / nearest, posinf=1e6))

    of = "inputs" if isinstance(train, TensorSamples) and train.base[0].dim() == 3 else "pixels"
    return [Fitted("class_means", f"the nearest class mean of the {of}", ("accuracy",), outputs)]


def _are_pictures(samples: Any) -> bool:
    if isinstance(samples, ImageSamples):
        return True
    return type(samples) is TensorSamples and len(samples.base) == 2 and samples.base[0].dim() in {3, 4}


def _distances(pictures: Array, means: Array) -> Array:
    """Return squared distances, (pictures, classes), of pictures (pictures, numbers) from means (classes, numbers)."""
    found: Array = (pictures**2).sum(1)[:, None] - 2 * pictures @ means.T + (means**2).sum(1)
    return found


def _read(samples: Any, chosen: Array) -> Iterator[tuple[Array, Array]]:
    """Yield places, (rows,), and pixels, (rows, numbers), as they are in the source. Raises UnfitError."""
    raw, until = samples.raw, time.monotonic() + MAX_SECONDS
    for start in range(0, len(chosen), AT_ONCE):
        if time.monotonic() > until:
            raise UnfitError(f"reading the pictures takes more than {MAX_SECONDS:g} s")
        rows = chosen[start : start + AT_ONCE]
        taken = raw.gather(torch.from_numpy(rows))[0] if isinstance(raw, TensorSamples) else _stacked(raw, rows)
        yield rows, taken.numpy(force=True).reshape(len(rows), -1).astype(np.float64)


def _stacked(samples: Any, rows: Array) -> torch.Tensor:
    return torch.stack([samples[int(row)][0] for row in rows])
