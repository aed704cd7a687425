"""Mixing of samples and resizing of images: objectives around another one.

Mixup: Zhang et al. 2018, arXiv:1710.09412. CutMix: Yun et al. 2019, arXiv:1905.04899. All draws are from the global
generators, on the host where they are numbers: a checkpoint has their state, and nothing waits for the device.

Karras et al. 2018, arXiv:1710.10196, for generators; Howard's fast.ai for classifiers. Bilinear with antialiasing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.plain_values import TARGET_KEYS
from trainwright.trainer.data.tensors import IGNORED
from trainwright.trainer.objectives.objective import Objective, Outcome
from trainwright.trainer.objectives.supervised import Supervised, split_batch

if TYPE_CHECKING:
    from trainwright.trainer.objectives.mixing_sections import MixingBase, ProgressiveResizingSection
    from trainwright.trainer.user_code.context import Context


class Mixing:
    """The loss of another objective on mixed batches.

    Attributes:
        classes: into how many shares a class number is turned; None where targets are numbers, which are mixed as such.
    """

    def __init__(self, inner: Objective, section: MixingBase, classes: int | None) -> None:
        self.inner, self.section, self.classes = inner, section, classes

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Compute the loss of the mixed batch. Its metrics are measured against the targets that weigh more."""
        if random.random() >= self.section.probability:
            return self.inner(model, batch)
        args, named, target = split_batch(batch)
        cut, alpha = self.section.draw()
        partners = torch.randperm(len(target), device=target.device)
        share = random.betavariate(alpha, alpha)
        box = None
        if cut:
            box, share = cut_out(_images(args, named).shape, share)
        mixed = [_mix(value, partners, share, box) for value in (*args, *named.values())]
        soft = self._soft(target)
        soft = torch.lerp(soft[partners], soft, share)
        outcome = self.inner(model, _batch_like(batch, mixed, soft))
        outcome.target = target if share >= 0.5 else target[partners]
        return outcome

    def count(self, batch: Any) -> int:
        """Return the terms of the batch's mean, as they were before mixing."""
        return self.inner.count(batch)

    def _soft(self, target: Tensor) -> Tensor:
        """Return targets that can be mixed: (batch, classes) shares of class numbers (batch), none where ignored."""
        if self.classes is None:
            return target
        counted = target != IGNORED
        return F.one_hot(torch.where(counted, target, 0), self.classes).float() * counted[:, None]


def cut_out(shape: torch.Size, share: float) -> tuple[tuple[slice, slice], float]:
    """Draw a rectangle of the last two dimensions that leaves about `share`; return it and the share it truly leaves.

    Its middle is anywhere, so that it may be cut at the border.
    """
    height, width = shape[-2:]
    side = math.sqrt(1.0 - share)
    half_height, half_width = round(height * side) / 2, round(width * side) / 2
    middle = random.uniform(0, height), random.uniform(0, width)
    top, left = max(round(middle[0] - half_height), 0), max(round(middle[1] - half_width), 0)
    bottom, right = min(round(middle[0] + half_height), height), min(round(middle[1] + half_width), width)
    return (slice(top, bottom), slice(left, right)), 1.0 - (bottom - top) * (right - left) / (height * width)


def build_mixing(section: MixingBase, inner: Objective, plain: Objective, batch: Any, model: nn.Module) -> Mixing:
    """Return the training objective with mixing around it.

    Args:
        section: the way of mixing.
        inner: the training objective.
        plain: the supervised objective at its heart.
        batch: a real batch on the device.
        model: called once on it, without gradients.

    Raises:
        ConfigurationError: batch, loss or objective cannot be mixed.
    """
    if not isinstance(plain, Supervised) or plain.returns != "output" or plain.loss is None:
        raise ConfigurationError(
            f"`mixing` {section.name} mixes targets, and here the loss is not computed from the model's output and one "
            "target by the engine.",
            remedy="Take mixing out (null), or return plain parts from the task: a model with an output, a loss.",
        )
    args, named, target = split_batch(batch)
    inputs = [*args, *named.values()]
    if not isinstance(target, Tensor) or not all(isinstance(v, Tensor) and v.is_floating_point() for v in inputs):
        found = ", ".join(str(getattr(value, "dtype", type(value).__name__)) for value in inputs)
        raise ConfigurationError(
            f"`mixing` {section.name} needs inputs of floating point and one target tensor; the inputs are {found}.",
            remedy="Take mixing out (null), or hand over float inputs (images / 255.0).",
        )
    if section.cuts and (len(inputs) != 1 or inputs[0].dim() < 4):
        raise ConfigurationError(
            f"`mixing` {section.name} cuts out of images (batch, channels, height, width); the inputs are "
            f"{', '.join(str(tuple(value.shape)) for value in inputs)}.",
            remedy="Set mixing.name mixup, or hand over images.",
        )
    return Mixing(inner, section, _classes(section, plain, batch, target, model))


def _classes(section: MixingBase, plain: Supervised, batch: Any, target: Tensor, model: nn.Module) -> int | None:
    if target.is_floating_point():
        return None
    loss = plain.loss
    assert loss is not None  # noqa: S101 - checked by the caller
    if target.dim() != 1 or not loss.soft_targets:
        raise ConfigurationError(
            f"`mixing` {section.name} gives each sample a share of two classes, which loss {loss.name} with targets "
            f"{tuple(target.shape)} {target.dtype} does not take.",
            remedy="Use loss cross_entropy or class_balanced (gamma 0) with one class number per sample, or take "
            "mixing out (null).",
        )
    was_training = model.training
    model.eval()
    with torch.no_grad():
        output = plain(model, batch).output
    model.train(was_training)
    return int(output.shape[1])


def _images(args: tuple[Any, ...], named: Mapping[str, Any]) -> Tensor:
    images: Tensor = next(iter((*args, *named.values())))
    return images


def _mix(value: Tensor, partners: Tensor, share: float, box: tuple[slice, slice] | None) -> Tensor:
    if box is None:
        return torch.lerp(value[partners], value, share)
    mixed = value.clone()
    mixed[(..., *box)] = value[partners][(..., *box)]
    return mixed


def _batch_like(batch: Any, mixed: list[Tensor], target: Tensor) -> Any:
    """Return a batch of the same form with other inputs and another target."""
    if not isinstance(batch, Mapping):
        return (*mixed, target)
    key = next(name for name in TARGET_KEYS if name in batch)
    inputs = dict(zip((name for name in batch if name != key), mixed, strict=True))
    return {name: inputs.get(name, target) for name in batch}


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


def build_resizing(  # noqa: PLR0917 - the values that it checks
    section: ProgressiveResizingSection, epochs: int, inner: Objective, context: Context, batch: Any, model: Any
) -> Resizing:
    """Return the training objective with resizing around it.

    Each size is tried on a real batch.

    Raises:
        ConfigurationError: there are no images, a size is not smaller than they are, or the model does not take it.
    """
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
            remedy=f"Give sizes below {smallest}; images of full size follow after them.",
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
