"""Masks of the worst rows of a segmentation, the true beside the predicted, as small as their thumbnails."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor
from torch.utils.data import Subset

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.evaluation.outputs import Call, validation_loader

UNCOUNTED = 255
"""Of a pixel whose class counts nowhere, and of classes beyond what a byte holds."""


def worst_masks(session: Session, call: Call, rows: Array, images: Array) -> dict[str, Array]:
    """Return `worst_targets` and `worst_predictions`, (rows, height, width) of uint8; empty where rows have no masks.

    Args:
        call: gives output and target of a batch.
        rows: places in the validation split, (rows,).
        images: thumbnails of these rows, (rows, height, width, channels).
    """
    size = (images.shape[1], images.shape[2])
    samples = session.work.splits.samples["validation"]
    few = samples.subset(rows.tolist()) if isinstance(samples, TensorSamples) else Subset(samples, rows.tolist())
    targets: list[Tensor] = []
    predictions: list[Tensor] = []
    for batch in replace(validation_loader(session), samples=few).batches(0):
        output, target = call(batch)
        if output.dim() != 4 or target.shape != (len(output), *output.shape[2:]):
            return {}
        targets.append(_small(target, size))
        predictions.append(_small(output.argmax(1), size))
    return {"worst_targets": torch.cat(targets).numpy(), "worst_predictions": torch.cat(predictions).numpy()}


def _small(masks: Tensor, size: tuple[int, int]) -> Tensor:
    """Return masks (rows, height, width) in a size, by the nearest pixel, as bytes."""
    nearest = F.interpolate(masks[:, None].float().cpu(), size=size, mode="nearest-exact")[:, 0]
    known = (nearest >= 0) & (nearest < UNCOUNTED)
    return torch.where(known, nearest, float(UNCOUNTED)).to(torch.uint8)
