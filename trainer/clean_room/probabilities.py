"""Metrics of predicted probabilities in numpy, from logits: of each target what it costs, then their mean.

As scikit-learn has them (Pedregosa et al. 2011); calibration error: Naeini et al. 2015, Guo et al. 2017
(arXiv:1706.04599), by fifteen bins of equal width.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .counts import IGNORED, counted_targets, has_labels, is_by_token, is_one_logit

Array = np.ndarray[Any, Any]
BINS = 15
PAIR = 2
"""Of so many classes the rank says no more than the accuracy."""


def log_probabilities(outputs: Array, targets: Array) -> tuple[Array, Array]:
    """Return log probabilities (rows, terms, classes) and class numbers (rows, terms), 0 where they are ignored.

    Args:
        outputs: logits as `predicted_classes` takes them.
        targets: class numbers (rows, ...); 0 or 1 for single logits and for labels.

    Raises:
        ValueError: outputs and targets do not fit each other.
    """
    if is_one_logit(outputs, targets) or has_labels(outputs, targets):
        logits = outputs.reshape(targets.shape).reshape(len(targets), -1).astype(float)
        both = np.stack([-np.logaddexp(0.0, logits), -np.logaddexp(0.0, -logits)], axis=-1)
        return both, (targets > 0).reshape(len(targets), -1).astype(np.int64)
    log_p, wanted, _ = by_class(outputs, targets)
    return log_p, wanted


def by_class(outputs: Array, targets: Array) -> tuple[Array, Array, Array]:
    """Return log probabilities (rows, terms, classes), class numbers (rows, terms) with 0 for ignored, what counts.

    Raises:
        ValueError: outputs and class numbers do not fit each other.
    """
    last, rows = in_last(outputs, targets), len(outputs)
    wanted = targets.reshape(rows, -1).astype(np.int64, copy=False)
    counted = wanted != IGNORED
    if ((wanted < 0) | (wanted >= last.shape[-1]))[counted].any():
        raise ValueError(f"a class number lies outside the {last.shape[-1]} classes of the outputs")
    return log_softmax(last.reshape(rows, -1, last.shape[-1])), np.where(counted, wanted, 0), counted


def in_last(outputs: Array, targets: Array) -> Array:
    """Return outputs with their classes as the last dimension. Raises ValueError where they do not fit the targets."""
    last = outputs if is_by_token(outputs, targets) or outputs.ndim == 2 else np.moveaxis(outputs, 1, -1)
    if last.shape[:-1] != targets.shape and targets.shape != (len(last), 1):  # class numbers may stand in a column
        raise ValueError(f"outputs {outputs.shape} do not fit class numbers {targets.shape}")
    return last


def log_softmax(logits: Array) -> Array:
    """Return the logarithms of the classes' probabilities, of logits (..., classes)."""
    shifted = logits.astype(float)
    shifted -= shifted.max(-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(-1, keepdims=True))
    return shifted


def picked(log_p: Array, wanted: Array) -> Array:
    """Return the log probability of each target's class, in the shape of class numbers."""
    return np.take_along_axis(log_p, wanted[..., None], axis=-1)[..., 0]


def surprises(outputs: Array, targets: Array) -> Array:
    """Return the negative log probability of each target's class, (rows, ...): their mean is the log loss."""
    return np.asarray(-picked(*log_probabilities(outputs, targets)).reshape(targets.shape))


def squared_distances(outputs: Array, targets: Array) -> Array:
    """Return the squared distance of the probabilities from each target, (rows, ...): their mean is the Brier score.

    Over all classes (Brier 1950); of two it is that of class 1 alone, half of it.
    """
    log_p, wanted = log_probabilities(outputs, targets)
    apart = np.exp(log_p) - (wanted[..., None] == np.arange(log_p.shape[-1]))
    found = np.square(apart).sum(-1) / (2.0 if log_p.shape[-1] == 2 else 1.0)
    return np.asarray(found).reshape(targets.shape)


def confidences(outputs: Array, targets: Array) -> Array:
    """Return the likeliest class's probability, (rows, ...), negative where the target is another class."""
    log_p, wanted = log_probabilities(outputs, targets)
    signs = np.where(log_p.argmax(-1) == wanted, 1.0, -1.0)
    return np.asarray(signs * np.exp(log_p.max(-1))).reshape(targets.shape)


def calibration_error(found: Array, targets: Array) -> float:
    """Mean distance of the share of right answers from the mean confidence in each bin, weighted by its targets."""
    signed, _ = counted_targets(found, targets)
    if not signed.size:
        return math.nan
    confident, right = np.abs(signed), signed > 0
    bins = np.minimum((confident * BINS).astype(np.int64), BINS - 1)
    apart = np.bincount(bins, right, BINS) - np.bincount(bins, confident, BINS)
    return float(np.abs(apart).sum() / len(bins))


def places_of(outputs: Array, targets: Array, beyond: int) -> Array:
    """Return the place of each target's class among all by falling score, from 0; of equal logits the last is first.

    Args:
        outputs: logits as `predicted_classes` takes them.
        targets: class numbers, (rows, ...).
        beyond: so many classes, or fewer, say nothing.

    Raises:
        ValueError: there are no more classes, or they are labels.
    """
    if is_one_logit(outputs, targets) or has_labels(outputs, targets):
        raise ValueError("it is of classes, one for each target")
    last = in_last(outputs, targets)
    if last.shape[-1] <= beyond:
        raise ValueError(f"of {last.shape[-1]} classes the {beyond} likeliest are all")
    wanted = np.where(targets == IGNORED, 0, targets).astype(np.int64).reshape(*last.shape[:-1], 1)
    own = np.take_along_axis(last, wanted, axis=-1)
    ahead = (last > own) | ((last == own) & (np.arange(last.shape[-1]) > wanted))
    return np.asarray(ahead.sum(axis=-1)).reshape(targets.shape)


def is_in_top(most: int, outputs: Array, targets: Array) -> Array:
    """Return whether each target's class is among the `most` likeliest, (rows, ...). Raises as `places_of`."""
    return np.asarray(places_of(outputs, targets, most) < most)


def reciprocal_ranks(outputs: Array, targets: Array) -> Array:
    """Return 1 / rank of each target's class, (rows, ...). Raises as `places_of`."""
    return np.asarray(1.0 / (1.0 + places_of(outputs, targets, PAIR)))


def discounted_gains(most: int, outputs: Array, targets: Array) -> Array:
    """Return 1 / log2(1 + rank) of each target's class, (rows, ...), 0 below the first `most`. Raises as `places_of`.

    With one class that is right this is the normalised gain (Järvelin and Kekäläinen 2002, 10.1145/582415.582418).
    """
    places = places_of(outputs, targets, PAIR)
    return np.where(places < most, 1.0 / np.log2(2.0 + places), 0.0)
