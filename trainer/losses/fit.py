"""Fit of outputs and targets to a loss, and the losses' measurements on the train split before training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.tensors import IGNORED, known_targets
from trainwright.trainer.losses.loss import Loss, class_numbers


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


def check_fit(loss: Loss, output: Tensor, target: Tensor, rows: int | None = None) -> None:
    """Check one real batch, output and target (batch, ...), against the loss's rule before training.

    Args:
        rows: of the batch's inputs, where they are known: of two lengths that differ, theirs is right.

    Raises:
        ConfigurationError: the output does not fit the loss, or the targets do not; each names what is wrong alone.
        DataError: targets out of range.
    """
    if loss.of_classes:
        target = class_numbers(target, output)
        _check_class_targets(loss, output, target)
    if not output.is_floating_point():
        raise _bad_output(loss, output, "it must be floating point: logits, or a number for each target", NOT_CHOSEN)
    sizes = (len(output) if output.dim() else 0, len(target) if target.dim() else 0)
    if sizes[0] == rows != sizes[1]:
        raise _bad_targets(loss, target, f"a batch of {rows} samples has {sizes[1]} of them", ONE_EACH)
    if sizes[0] != sizes[1] and output.numel() != target.numel():
        raise _bad_output(loss, output, f"its first dimension must be the {sizes[1]} samples of the batch", BY_ROW)
    if loss.of_classes:
        _check_classes(loss, output, target)
        by_token = output.dim() == 3 and output.shape[:2] == target.shape
        _check_weights(loss, "weights", "classes", output.shape[-1 if by_token else 1])
    elif output.numel() != target.numel():
        each = f"it must hold equally many values as there are targets, {target.numel()} of shape {tuple(target.shape)}"
        raise _bad_output(loss, output, each, LAST_LAYER)
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


def _check_class_targets(loss: Loss, output: Tensor, target: Tensor) -> None:
    """Refuse targets that are no class numbers, by what they are."""
    is_shaped = target.shape == output.shape
    if target.is_floating_point():
        if is_shaped and loss.soft_targets and output.dim() > 1:
            return  # probabilities per class
        if is_shaped and output.dim() > 1:
            shares = "they are a share for each class, and this loss takes class numbers"
            raise _bad_targets(loss, target, shares, "Return label.argmax(-1), or take loss cross_entropy.")
        whole = bool((target == target.round()).all())
        raise _bad_targets(
            loss,
            target,
            f"class numbers are whole ({', '.join(f'{each:g}' for each in target.flatten()[:4].tolist())}, …)",
            "Return them as integers: label.long(), or int(label)."
            if whole
            else "A number to predict needs loss mse (mae, huber), mostly with target_scaling standardize.",
        )
    if is_shaped and output.dim() == 2 and bool((target.sum(1) == 1).all() and ((target == 0) | (target == 1)).all()):
        hot = "each is a row with a single 1 (one-hot), and not a class number"
        raise _bad_targets(loss, target, hot, "Return label.argmax(-1), the number of the class.")


def _check_classes(loss: Loss, output: Tensor, target: Tensor) -> None:
    if target.is_floating_point():
        return
    by_token = output.dim() == 3 and target.dim() == 2 and output.shape[:2] == target.shape
    by_sample = (
        loss.task != "language_model" and output.dim() >= 2 and output.shape[:1] + output.shape[2:] == target.shape
    )
    if not by_token and not by_sample:
        wanted = f"(batch, classes{''.join(f', {size}' for size in target.shape[1:])})"
        if loss.task == "language_model":
            wanted = "(batch, time, vocabulary)"
        elif target.dim() > 1 and output.dim() == 2:
            several = f"there are {target[0].numel()} of them for each sample, and the model gives one set of logits"
            raise _bad_targets(loss, target, several, ONE_CLASS)
        raise _bad_output(loss, output, f"it must be {wanted} for targets {tuple(target.shape)}", LAST_LAYER)
    if loss.by_sample and output.dim() < 3:
        areas = "an overlap is of areas: output (batch, classes, height, width), targets the same without classes"
        raise _bad_output(loss, output, areas, LAST_LAYER)
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


LAST_LAYER = "Change the model's last layer (model.args), or the loss."
NOT_CHOSEN = "Return the logits from forward: without argmax, round, .long() or a comparison."
BY_ROW = (
    "Keep the batch as the first dimension in forward: no [:-1], .mean(0), .squeeze() or .flatten() across samples."
)
ONE_EACH = "Return one target for each sample, from the data set and its collate."
ONE_CLASS = (
    "Return the class number alone; several yes or no for each sample need loss bce_with_logits, and places beside "
    "each other (pixels, tokens) an output with the same places."
)


def _bad_targets(loss: Loss, target: Tensor, rule: str, remedy: str) -> ConfigurationError:
    shape = f"{tuple(target.shape)} {str(target.dtype).removeprefix('torch.')}"
    return ConfigurationError(f"The targets, {shape}, do not fit loss {loss.name}: {rule}.", remedy=remedy)


def _bad_output(loss: Loss, output: Tensor, rule: str, remedy: str) -> ConfigurationError:
    shape = f"{tuple(output.shape)} {str(output.dtype).removeprefix('torch.')}"
    return ConfigurationError(f"The model's output, {shape}, does not fit loss {loss.name}: {rule}.", remedy=remedy)
