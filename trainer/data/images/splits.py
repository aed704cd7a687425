"""Splits of pictures: by their files' digests, without decoding them; measured on some of the train split."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trainwright.trainer.data.images.samples import ImageSamples, some
from trainwright.trainer.data.marks import marks_from
from trainwright.trainer.data.preprocessing import Unfitted
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.split_methods.facts import facts_of
from trainwright.trainer.data.splits import Splits, split_indices
from trainwright.trainer.data.tensors import TensorSamples

Key = np.ndarray[Any, Any] | None
MEASURED = 2000
"""Train pictures on which mean and deviation are measured, where they are not all in memory."""
MEASURED_BYTES = 128 << 20


def picture_splits(loaded: Loaded, section: SplitSection, source: str) -> Splits:
    """Return the splits of a source's pictures, its preprocessing fitted on the train split, which alone is augmented.

    Raises:
        DataError: too few pictures that differ, or one that cannot be decoded.
    """
    assert isinstance(loaded.samples, ImageSamples), "asked for these alone"  # noqa: S101
    key = loaded.keys.get(section.key or "")
    parts = picture_parts(loaded.samples, section, key)
    unfitted: Unfitted | None = loaded.preprocessing
    preprocessing = None if unfitted is None else unfitted.fit(_measured(parts["train"]))
    samples = {
        name: part.prepared_by(preprocessing, loaded.augment if name == "train" else None)
        for name, part in parts.items()
    }
    return Splits(
        dict(samples),
        {name: part.record() for name, part in samples.items()},
        source,
        loaded.class_names,
        preprocessing=preprocessing,
        files=loaded.files,
        split=section.describe() | facts_of(section, key, {name: part.rows for name, part in parts.items()}),
        skipped=loaded.skipped,
        understood=loaded.understood,
        target_names=loaded.target_names,
    )


def picture_parts(samples: ImageSamples, section: SplitSection, key: Key) -> dict[str, ImageSamples]:
    """Return the pictures of each split, equal files in the same.

    Args:
        samples: all of the source.
        section: how to split them.
        key: the column that the split needs, (samples,).

    Raises:
        DataError: too few distinct pictures, or a column that cannot be split by.
    """
    found = split_indices(
        samples.inputs, samples.labels, section, key, lambda: marks_from(samples.contents, samples.inputs)
    )
    return {name: samples.subset(places) for name, places in found.items() if len(places)}


def _measured(train: ImageSamples) -> TensorSamples:
    """Return train pictures in memory, (pictures, channels, height, width) of uint8: all there, or some decoded now."""
    pictures = train.pictures
    if pictures.pixels is not None:
        return TensorSamples(pictures.pixels, rows=torch.from_numpy(train.rows))
    each = pictures.channels * pictures.size[0] * pictures.size[1]
    plain = train.raw
    chosen = some(train, max(min(MEASURED, MEASURED_BYTES // each), 16))
    return TensorSamples(torch.stack([plain[row][0] for row in chosen.tolist()]))
