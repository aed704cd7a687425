"""Whether outputs and targets are what a loss needs, asked of one real batch before training."""

from __future__ import annotations

import torch
from torch import Tensor

from trainwright.trainer.data.tensors import IGNORED
from trainwright.trainer.errors import ConfigurationError, DataError
from trainwright.trainer.losses.loss import Loss


def check_fit(loss: Loss, output: Tensor, target: Tensor) -> None:
    """Check one real batch against the loss's rule before training.

    Raises:
        ConfigurationError: the output's shape or type does not fit the loss or the targets.
        DataError: targets out of range.
    """
    shapes = f"output {tuple(output.shape)} {output.dtype}, target {tuple(target.shape)} {target.dtype}"
    if not output.is_floating_point():
        raise _unfit(loss, shapes, "the output must be floating point")
    if loss.task in {"classification", "language_model"}:
        _check_classes(loss, output, target, shapes)
        by_token = output.dim() == 3 and output.shape[:2] == target.shape
        _check_weights(loss, "weights", "classes", output.shape[-1 if by_token else 1])
    elif output.numel() != target.numel():
        raise _unfit(loss, shapes, "output and target must hold equally many values (one output per target)")
    elif loss.task == "binary" and not bool(((target >= 0) & (target <= 1)).all()):
        raise DataError(
            f"bce_with_logits needs targets in [0, 1], got {target.min().item():g} to {target.max().item():g}.",
            remedy="Encode the labels as 0 and 1, or use loss cross_entropy.",
        )
    elif loss.task == "binary":
        _check_weights(loss, "pos_weight", "labels", target[0].numel())


def _check_weights(loss: Loss, key: str, what: str, outputs: int) -> None:
    if loss.weights is not None and loss.weights.numel() not in {outputs, 1 if loss.task == "binary" else outputs}:
        raise ConfigurationError(
            f"Loss {loss.name} has {loss.weights.numel()} {key}, the model has {outputs} {what}.",
            remedy=f"Give as many numbers in loss.args.{key} as the model has outputs.",
        )


def _check_classes(loss: Loss, output: Tensor, target: Tensor, shapes: str) -> None:
    if target.is_floating_point() and target.shape == output.shape and loss.soft_targets:
        return  # probabilities per class
    if target.dtype != torch.int64:
        raise _unfit(loss, shapes, "targets must be class numbers (int64)")
    by_token = output.dim() == 3 and target.dim() == 2 and output.shape[:2] == target.shape
    by_sample = (
        loss.task != "language_model" and output.dim() >= 2 and output.shape[:1] + output.shape[2:] == target.shape
    )
    if not by_token and not by_sample:
        wanted = "(batch, classes) for targets (batch)"
        if loss.task == "language_model":
            wanted = "(batch, time, vocabulary) for targets (batch, time)"
        raise _unfit(loss, shapes, f"the output must be {wanted}")
    if loss.by_sample and output.dim() < 3:
        raise _unfit(
            loss,
            shapes,
            "an overlap is of areas: output (batch, classes, height, width), targets the same without classes",
        )
    check_labels(target, output.shape[-1 if by_token and not by_sample else 1])


def check_labels(target: Tensor, classes: int) -> None:
    """Raise DataError when a class number is outside 0 to classes - 1 (and not -100)."""
    bad = (target != IGNORED) & ((target < 0) | (target >= classes))
    if bool(bad.any()):
        known = f"{classes} classes (0 to {classes - 1})" if classes != 1 else "only class, 0"
        raise DataError(
            f"Label {int(target[bad][0])} is outside the model's {known}.",
            remedy="Correct the labels, or give the model as many outputs as there are classes.",
        )


def _unfit(loss: Loss, shapes: str, rule: str) -> ConfigurationError:
    return ConfigurationError(
        f"The model's output does not fit loss {loss.name}: {shapes}; {rule}.",
        remedy="Change the model's last layer (model.args), or the loss.",
        details={"shapes": shapes},
    )
