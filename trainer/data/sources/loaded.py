"""What a built-in source hands over."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainwright.trainer.data.tensors import TensorSamples


@dataclass(frozen=True)
class Loaded:
    """Samples of a source, with what is known about them."""

    samples: TensorSamples
    class_names: list[str] | None = None
    """Names by label for classification; None for regression."""
    feature_names: list[str] | None = None
    standardize: bool = False
    """Whether features are to be brought to mean 0 and deviation 1, measured on the train split."""
    by_channel: bool = False
    """Whether that is measured over all pixels of a channel, of images, rather than for each feature."""
    files: list[Path] = field(default_factory=list)
    """Files and folders that were read: a change of any of them is a change of the data."""
