"""Forms of outputs and targets, and what is kept of a batch of each: predictions, probabilities, losses of rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

from trainwright.trainer.data.tensors import IGNORED
from trainwright.trainer.losses.loss import Compute

CLASSES, LABELS, NUMBERS, PLACES = "classes", "labels", "numbers", "places"
LOSSES = {
    CLASSES: "cross entropy", LABELS: "binary cross entropy, mean over labels", NUMBERS: "squared error",
    PLACES: "cross entropy, mean over places",
}  # fmt: skip
MAX_CONFUSED = 100
"""Classes of a confusion matrix; of more there is none."""
MAX_NUMBERS = 16
"""Numbers a row, up to which its targets and predictions are kept."""
MIN_PROBABILITY = 1e-12


@dataclass
class Kept:
    """What is kept of a batch, all on the CPU, (rows, ...)."""

    loss: Tensor
    target: Tensor | None = None
    prediction: Tensor | None = None
    probability: Tensor | None = None
    confusion: Tensor | None = None
    """(classes, classes) of counts: targets down, predictions across."""
    counted: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.bool))
    """Whether each row of the batch has a target that counts, (batch,); the others are not kept."""


def form_of(output: Tensor, target: Tensor, task: str | None) -> str | None:
    """Return the form of outputs (batch, ...) for targets (batch, ...); None where it is no known one."""
    wide = output.dim() > 1 and output.shape[1] > 1
    if output.dim() == 3 and output.shape[:2] == target.shape and output.shape[2] > 1:
        return PLACES
    if not target.is_floating_point() and wide and output.dim() == target.dim() + 1:
        return CLASSES if output.dim() == 2 else PLACES
    if task == "classification" and output.dim() == 2 and target.shape == output.shape:
        return CLASSES
    if output.numel() != target.numel():
        return None
    if task == "binary" or (task is None and _is_binary(target)):
        return LABELS if wide and target.shape == output.shape else CLASSES
    return NUMBERS


def _is_binary(target: Tensor) -> bool:
    return not target.is_floating_point() and bool(((target == 0) | (target == 1)).all())


def kept_of(form: str, output: Tensor, target: Tensor, own: Compute | None = None) -> Kept:
    """Return what is kept of outputs and targets, (batch, ...), of a form.

    Args:
        own: the user's loss, which knows where a row with a class for each place is padded.
    """
    if form == PLACES and own is not None:
        return _by_own_loss(output, target, own)
    output = output.detach().float()
    if form == CLASSES:
        return _classes(output, target)
    if form == LABELS:
        return _labels(output, target)
    return _places(output, target) if form == PLACES else _numbers(output, target)


def _classes(output: Tensor, target: Tensor) -> Kept:
    """Rows with one class each: logits (batch, classes), or (batch,) and (batch, 1) of the second of two."""
    if output.dim() == 2 and target.shape == output.shape and output.shape[1] > 1:
        target = target.argmax(1)
    target = target.reshape(len(target)).long()
    counted = target != IGNORED
    target, output = target[counted], output[counted]
    shares = _shares(output)
    right = shares.gather(1, target.clamp(0, shares.shape[1] - 1)[:, None])[:, 0]
    guessed = shares.argmax(1)
    return Kept(
        loss=-right.clamp(min=MIN_PROBABILITY).log().cpu(),
        target=target.cpu(),
        prediction=guessed.cpu(),
        probability=shares.cpu(),
        confusion=_confused(target, guessed, shares.shape[1]),
        counted=counted.cpu(),
    )


def _shares(output: Tensor) -> Tensor:
    """Return the probabilities of classes, (batch, classes), of logits; of outputs that are probabilities as is."""
    if output.dim() == 1 or output.shape[1] == 1:
        yes = output.reshape(-1).sigmoid()
        return torch.stack([1 - yes, yes], dim=1)
    sums = output.sum(1)
    are_shares = bool((output >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-4)
    return output if are_shares else output.softmax(1)


def _labels(output: Tensor, target: Tensor) -> Kept:
    wanted = target.to(output.dtype)
    loss = F.binary_cross_entropy_with_logits(output, wanted, reduction="none").flatten(1).mean(1)
    if output.dim() > 2 or output.shape[1] > MAX_CONFUSED:
        return Kept(loss=loss.cpu(), counted=torch.ones(len(loss), dtype=torch.bool))
    return Kept(
        loss=loss.cpu(),
        target=wanted.to(torch.uint8).cpu(),
        prediction=(output > 0).to(torch.uint8).cpu(),
        probability=output.sigmoid().cpu(),
        counted=torch.ones(len(loss), dtype=torch.bool),
    )


def _numbers(output: Tensor, target: Tensor) -> Kept:
    wanted = target.float().reshape(len(target), -1)
    guessed = output.reshape(wanted.shape)
    loss = (guessed - wanted).square().mean(1).cpu()
    counted = torch.ones(len(loss), dtype=torch.bool)
    if wanted.shape[1] > MAX_NUMBERS:
        return Kept(loss=loss, counted=counted)
    squeezed = (guessed[:, 0], wanted[:, 0]) if wanted.shape[1] == 1 else (guessed, wanted)
    return Kept(loss=loss, prediction=squeezed[0].cpu(), target=squeezed[1].cpu(), counted=counted)


def _places(output: Tensor, target: Tensor) -> Kept:
    """Rows with a class for each place: (batch, places, classes) of tokens, (batch, classes, ...) of pixels."""
    by_token = output.dim() == 3 and output.shape[:2] == target.shape
    logits = output.movedim(-1, 1) if by_token else output
    target = target.long()
    there = target != IGNORED
    losses = F.cross_entropy(logits, target, ignore_index=IGNORED, reduction="none").flatten(1)
    places = there.flatten(1).sum(1)
    counted = places > 0
    loss = losses.sum(1)[counted] / places[counted]
    guessed = logits.argmax(1)
    return Kept(
        loss=loss.cpu(), confusion=_confused(target[there], guessed[there], logits.shape[1]), counted=counted.cpu()
    )


def _by_own_loss(output: Tensor, target: Tensor, own: Compute) -> Kept:
    """Rows with a class for each place, each by the user's loss alone; one without a place that counts has none."""
    rows = range(len(target))
    losses = torch.stack([own(output[row : row + 1], target[row : row + 1]).float().reshape(()) for row in rows])
    counted = losses.isfinite()
    return Kept(loss=losses[counted].cpu(), counted=counted.cpu())


def _confused(target: Tensor, guessed: Tensor, classes: int) -> Tensor | None:
    """Return counts (classes, classes) of targets by prediction, both (rows,); None of too many classes."""
    if classes > MAX_CONFUSED or bool(((target < 0) | (target >= classes)).any()):
        return None
    return torch.bincount(target.cpu() * classes + guessed.cpu(), minlength=classes * classes).reshape(classes, classes)
