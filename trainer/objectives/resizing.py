"""Progressive resizing: a training objective around another one, which sees smaller images in the first epochs.

Karras et al. 2018, arXiv:1710.10196, for generators; Howard's fast.ai for classifiers. Bilinear with antialiasing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn

from trainwright.trainer.config.curriculum import ProgressiveResizingSection
from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.objectives.outcome import Objective, Outcome
from trainwright.trainer.objectives.supervised import split_batch
from trainwright.trainer.user_code.context import Context


class Resizing:
    """The loss of another objective on images of the epoch's size."""

    def __init__(self, inner: Objective, section: ProgressiveResizingSection, epochs: int, context: Context) -> None:
        self.inner, self.section, self.epochs, self.context = inner, section, epochs, context

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Compute the loss of the batch, its images resized."""
        size = self.section.size(self.context.epoch, self.epochs)
        return self.inner(model, batch if size is None else resized(batch, size))

    def count(self, batch: Any) -> int:
        """Return the terms of the batch's mean."""
        return self.inner.count(batch)


def resized(batch: Any, size: int) -> Any:
    """Return the batch with each tensor of images (batch, channels, height, width) at height = width = size."""
    if isinstance(batch, Mapping):
        return {name: _small(value, size) for name, value in batch.items()}
    if isinstance(batch, tuple | list):
        return tuple(_small(value, size) for value in batch)
    return _small(batch, size)


def build_resizing(  # noqa: PLR0917 - what it looks at
    section: ProgressiveResizingSection | None, epochs: int, inner: Objective, context: Context, batch: Any, model: Any
) -> Objective:
    """Return the training objective with resizing around it, or as it is.

    Each size is tried on a real batch.

    Raises:
        ConfigurationError: there are no images, a size is not smaller than they are, or the model does not take it.
    """
    if section is None:
        return inner
    args, named, target = split_batch(batch)
    images = [value for value in (*args, *named.values()) if _is_images(value)]
    if not images or (isinstance(target, Tensor) and target.dim() > 2):
        raise ConfigurationError(
            "`progressive_resizing` is for images (batch, channels, height, width) with one target for each image.",
            remedy="Take progressive_resizing out (null); segmentation keeps the size of its targets.",
        )
    smallest = min(min(value.shape[-2:]) for value in images)
    if section.sizes[-1] >= smallest:
        raise ConfigurationError(
            f"`progressive_resizing.sizes` = {section.sizes}: the images are {smallest} pixels wide as they are.",
            remedy=f"Give sizes below {smallest}; whole images follow after them.",
        )
    for size in section.sizes:
        try:
            inner(model, resized(batch, size))
        except (RuntimeError, ValueError) as error:
            raise ConfigurationError(
                f"The model does not take images of {size} x {size}: {str(error)[:200]}",
                remedy="Use a model that takes any size (cnn, resnet: a mean over space before the last layer), larger "
                "sizes, or take progressive_resizing out (null).",
            ) from error
    return Resizing(inner, section, epochs, context)


def _is_images(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point()


def _small(value: Any, size: int) -> Any:
    if not _is_images(value):
        return value
    return F.interpolate(value, size=(size, size), mode="bilinear", antialias=True, align_corners=False)
