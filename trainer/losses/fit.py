"""Fit of outputs and targets to a loss, and the losses' measurements on the train split before training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.tensors import IGNORED, known_targets
from trainwright.trainer.losses.loss import Loss


def measured_on_train(loss: Loss, samples: Any, labels: Mapping[int, int], classes: int) -> Loss:
    """Return the loss with its weights measured, or as it is when it measures nothing.

    Args:
        loss: the loss.
        samples: the train split.
        labels: how often each label was recorded in it (empty where samples have no single label).
        classes: how many classes there are at least, over all splits.

    Raises:
        DataError: the train split does not reveal the counts.
    """
    return loss if loss.measure is None else loss.measure(counts_on_train(loss, samples, labels, classes))


def counts_on_train(loss: Loss, samples: Any, labels: Mapping[int, int], classes: int = 0) -> Tensor:
    """Counts that a loss's weights are measured by: (classes,); of binary targets negatives, positives: (2, ...).

    Arguments and errors are those of `measured_on_train`.
    """
    targets = known_targets(samples)
    if loss.task == "binary":
        if targets is None:
            raise _unknown_counts(loss, "pos_weight", "the positives of each label")
        positives = (targets.reshape(len(targets), -1) > 0.5).sum(0)
        shape = targets.shape[1:] if targets.dim() > 1 else (1,)
        return torch.stack([len(targets) - positives, positives]).reshape(2, *shape)
    if targets is not None and not targets.is_floating_point():
        return _counts(targets[targets != IGNORED], classes)
    if not labels or isinstance(samples, IterableDataset):
        raise _unknown_counts(loss, "weights", "the samples of each class")
    known = sum(labels.values())  # of a large split only some samples were read
    counts = torch.zeros(max(classes, max(labels) + 1), dtype=torch.float64)
    for label, number in labels.items():
        counts[label] = number * len(samples) / known
    return counts


def _counts(targets: Tensor, classes: int) -> Tensor:
    bad = targets[targets < 0]
    if len(bad):
        raise DataError(f"Label {int(bad[0])} is negative.", remedy="Correct the labels: class numbers start at 0.")
    return torch.bincount(targets.reshape(-1), minlength=classes)


def _unknown_counts(loss: Loss, key: str, what: str) -> DataError:
    return DataError(
        f"Loss {loss.name} weighs by {what}, which this train split does not reveal without reading all of it.",
        remedy=f"Count them once and give numbers: loss: {{use: {'cross_entropy' if key == 'weights' else loss.name}, "
        f"args: {{{key}: [1.0, 5.0]}}}}.",
    )


def check_fit(loss: Loss, output: Tensor, target: Tensor) -> None:
    """Check one real batch, output and target (batch, ...), against the loss's rule before training.

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
    """Raise DataError when a class number of a target (any shape) is outside 0 to classes - 1 (and not -100)."""
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
