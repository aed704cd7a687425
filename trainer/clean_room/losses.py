"""Losses in numpy: of each row the sum of its terms and their number, so that a split's mean is sum over number.

The terms are those that the engine's losses average: class numbers that count, or whole samples. All in float64. Their
sources stand with the engine's (losses/loss.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .counts import Array, is_by_token
from .numbers import pinball
from .probabilities import by_class, log_softmax, picked

Terms = tuple[Array, Array]
"""Sum of the terms and their number of each row, both (rows,) of float64."""


class NotComputableError(Exception):
    """A loss that is not computed here; the message says why."""


def terms(loss: Mapping[str, Any], outputs: Array, targets: Array) -> Terms:
    """Return the terms of a loss of outputs and targets, first dimension rows.

    Args:
        loss: `name`, `args` as in a configuration, and the `train_counts` by which weights are measured.
        outputs: logits or numbers, (rows, ...).
        targets: as the loss takes them, (rows, ...).

    Raises:
        NotComputableError: no built-in loss of that name, or its weights are measured by counts that are not here.
        ValueError: outputs and targets do not fit it.
    """
    name, args = str(loss["name"]), dict(loss.get("args") or {})
    if name not in LOSSES:
        raise NotComputableError(f"{name} has no form here: only built-in losses are computed independently")
    weights = args.pop("weights", args.pop("pos_weight", None))
    if weights == "balanced" or name == "class_balanced":
        if not loss.get("train_counts"):
            raise NotComputableError(f"{name} has weights measured on the train split, whose counts are not here")
        counts_of_train = np.asarray(loss["train_counts"], dtype=float)
        held: Array | None = _measured(name, args, counts_of_train, outputs, targets)
    else:
        held = None if weights is None else np.asarray(weights, dtype=float).reshape(-1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        sums, counts = LOSSES[name](outputs, targets, args, held)
    return sums, counts


def _measured(name: str, args: Mapping[str, Any], counts: Array, outputs: Array, targets: Array) -> Array:
    """Return the weights of classes, or labels, by the counts of the train split (as the record of rows has them)."""
    if name == "bce_with_logits":
        negatives, positives = np.maximum(counts, 1.0)
        return np.asarray(negatives / positives).reshape(targets.shape[1:] or -1)
    size = outputs.shape[-1 if is_by_token(outputs, targets) else 1]
    known = np.pad(counts[0], (0, size - counts.shape[1]))  # classes that train lacks
    some, beta = np.maximum(known, 1.0), float(args.get("beta", 0.999))
    weights = (1.0 - beta) / (1.0 - beta**some) if name == "class_balanced" else 1.0 / some
    return np.asarray(weights * known.sum() / (weights * known).sum())


def cross_entropy(outputs: Array, targets: Array, args: Mapping[str, Any], weights: Array | None) -> Terms:
    """Cross entropy with label smoothing, of class numbers or of shares of each class."""
    smoothing = float(args.get("label_smoothing", 0.0))
    if targets.shape == outputs.shape and targets.dtype.kind == "f":
        shares = np.moveaxis(targets.astype(float), 1, -1) * (1.0 - smoothing) + smoothing / outputs.shape[1]
        costs = -log_softmax(np.moveaxis(outputs, 1, -1)) * shares
        weighted = costs if weights is None else costs * weights
        return _by_row(weighted.sum(-1), np.ones(weighted.shape[:-1], dtype=bool), each_row=True)
    log_p, wanted, counted = by_class(outputs, targets)
    smooth = -(log_p if weights is None else log_p * weights).mean(-1)
    hard = -picked(log_p, wanted) * (1.0 if weights is None else weights[wanted])
    return _by_row((1.0 - smoothing) * hard + (smoothing * smooth if smoothing else 0.0), counted)


def focal(outputs: Array, targets: Array, args: Mapping[str, Any], weights: Array | None) -> Terms:
    """Focal loss over the softmax of all classes."""
    log_p, wanted, counted = by_class(outputs, targets)
    true = picked(log_p, wanted)
    costs = -(np.maximum(-np.expm1(true), 1e-8) ** float(args.get("gamma", 2.0))) * true
    return _by_row(costs if weights is None else costs * weights[wanted], counted)


def class_balanced(outputs: Array, targets: Array, args: Mapping[str, Any], weights: Array | None) -> Terms:
    """Focal loss where `gamma` asks for it, else cross entropy, under weights measured on the train split."""
    return (focal if args.get("gamma") else cross_entropy)(outputs, targets, args, weights)


def bce_with_logits(outputs: Array, targets: Array, args: Mapping[str, Any], weights: Array | None) -> Terms:  # noqa: ARG001 - one form
    """Binary cross entropy of logits, a mean over each row's labels; the positive term times `pos_weight`."""
    logits, wanted = _numbers(outputs, targets)
    positive = np.logaddexp(0.0, -logits) * (1.0 if weights is None else weights)
    return _by_sample(wanted * positive + (1.0 - wanted) * np.logaddexp(0.0, logits))


def mse(outputs: Array, targets: Array, *_: Any) -> Terms:
    """Squared difference, a mean over each row's numbers."""
    values, wanted = _numbers(outputs, targets)
    return _by_sample(np.square(values - wanted))


def mae(outputs: Array, targets: Array, *_: Any) -> Terms:
    """Absolute difference, a mean over each row's numbers."""
    values, wanted = _numbers(outputs, targets)
    return _by_sample(np.abs(values - wanted))


def huber(outputs: Array, targets: Array, args: Mapping[str, Any], _: Any) -> Terms:
    """Huber loss: squared below `delta`, linear above it."""
    values, wanted = _numbers(outputs, targets)
    distance, delta = np.abs(values - wanted), float(args.get("delta", 1.0))
    return _by_sample(np.where(distance < delta, 0.5 * distance**2, delta * (distance - 0.5 * delta)))


def log_cosh(outputs: Array, targets: Array, *_: Any) -> Terms:
    """Logarithm of the hyperbolic cosine of the difference, without overflow."""
    values, wanted = _numbers(outputs, targets)
    distance = np.abs(values - wanted)
    return _by_sample(distance + np.log1p(np.exp(-2.0 * distance)) - math.log(2.0))


def quantile(outputs: Array, targets: Array, args: Mapping[str, Any], _: Any) -> Terms:
    """Pinball loss of a quantile, a mean over each row's numbers."""
    values, wanted = _numbers(outputs, targets)
    return _by_sample(pinball(values, wanted, float(args.get("quantile", 0.5))))


def dice(outputs: Array, targets: Array, args: Mapping[str, Any], _: Any) -> Terms:
    """1 - the soft Dice coefficient, a mean over each row's classes; ignored pixels count on neither side."""
    log_p, wanted, counted = by_class(outputs, targets)
    share = np.exp(log_p) * counted[..., None]
    true = (wanted[..., None] == np.arange(log_p.shape[-1])) * counted[..., None]
    smooth = float(args.get("smooth", 1.0))
    overlap = (2.0 * (share * true).sum(1) + smooth) / ((share + true).sum(1) + smooth)
    return _by_sample(1.0 - overlap)


def dice_cross_entropy(outputs: Array, targets: Array, args: Mapping[str, Any], _: Any) -> Terms:
    """`dice_share` of Dice, the rest cross entropy, which is a mean over each row's pixels."""
    share = float(args.get("dice_share", 0.5))
    overlap, rows = dice(outputs, targets, args, None)
    sums, pixels = cross_entropy(outputs, targets, {}, None)
    return share * overlap + (1.0 - share) * sums / np.maximum(pixels, 1), rows


LOSSES: dict[str, Callable[[Array, Array, Mapping[str, Any], Array | None], Terms]] = {
    "cross_entropy": cross_entropy,
    "focal": focal,
    "class_balanced": class_balanced,
    "next_token": cross_entropy,
    "masked_token": cross_entropy,
    "bce_with_logits": bce_with_logits,
    "mse": mse,
    "mae": mae,
    "huber": huber,
    "log_cosh": log_cosh,
    "quantile": quantile,
    "dice": dice,
    "dice_cross_entropy": dice_cross_entropy,
}


OF_CLASSES = {"cross_entropy", "focal", "class_balanced", "dice", "dice_cross_entropy"}
"""Losses whose targets are one class number for each sample, token or pixel, in place of numbers."""


def _numbers(outputs: Array, targets: Array) -> tuple[Array, Array]:
    return outputs.reshape(targets.shape).astype(float), targets.astype(float)


def _by_row(costs: Array, counted: Array, *, each_row: bool = False) -> Terms:
    """Return sums and numbers of the terms that count, (rows, terms); where each row is one term, their mean."""
    sums = np.where(counted, costs, 0.0).reshape(len(costs), -1).sum(1)
    counts = counted.reshape(len(counted), -1).sum(1).astype(float)
    return (sums / counts, np.ones_like(counts)) if each_row else (sums, counts)


def _by_sample(costs: Array) -> Terms:
    return costs.reshape(len(costs), -1).mean(1), np.ones(len(costs))
