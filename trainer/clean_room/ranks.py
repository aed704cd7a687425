"""Metrics of order in numpy: how scores rank samples of two classes, and how predicted numbers follow the true ones.

Areas as scikit-learn has them (Pedregosa et al. 2011); rank correlation: Spearman 1904; concordance of all pairs:
Harrell et al. 1982 (10.1001/jama.1982.03320430047030).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .counts import IGNORED, has_labels, labels_of, mean

Array = np.ndarray[Any, Any]


def scores(outputs: Array, targets: Array) -> Array:
    """Return what ranks samples: of two classes the difference of their logits, (samples,); else the outputs."""
    if outputs.ndim == 2 and outputs.shape[1] == 2 and not has_labels(outputs, targets):
        return np.asarray(outputs[:, 1] - outputs[:, 0])
    return outputs


def auc(ranked: Array, targets: Array) -> float:
    """Area under the ROC curve of scores for two classes, ties counted half; NaN when only one class occurs.

    Equals the Mann-Whitney U statistic divided by the number of pairs; their mean for targets (samples, labels).
    """
    if has_labels(ranked, targets):
        return mean(auc(*label) for label in labels_of(ranked, targets))
    values, positive = _of_two_classes(ranked, targets)
    positives = int(np.count_nonzero(positive))
    pairs = positives * (len(positive) - positives)
    if not pairs:
        return math.nan
    return (float(mean_ranks(values)[positive].sum()) - positives * (positives + 1) / 2) / pairs


def average_precision(ranked: Array, targets: Array) -> float:
    """Mean over the samples of class 1 of the precision down to each, by falling score; NaN when there is none.

    Samples of one score are taken together; the mean of all labels for targets (samples, labels).
    """
    if has_labels(ranked, targets):
        return mean(average_precision(*label) for label in labels_of(ranked, targets))
    values, positive = _of_two_classes(ranked, targets)
    if not positive.any():
        return math.nan
    order = np.argsort(-values, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(values[order])), len(order) - 1)
    hits = np.cumsum(positive[order])[ends]
    return float((np.diff(hits, prepend=0) * (hits / (ends + 1))).sum() / hits[-1])


def _of_two_classes(ranked: Array, targets: Array) -> tuple[Array, Array]:
    """Return scores and whether they are of class 1, (counted,). Raises ValueError for other sizes."""
    values, wanted = ranked.reshape(-1).astype(float, copy=False), targets.reshape(-1)
    if len(values) != len(wanted):
        raise ValueError(f"{len(values)} scores for {len(wanted)} targets")
    counted = wanted != IGNORED
    return values[counted], wanted[counted] > 0


def mean_ranks(values: Array) -> Array:
    """Return each value's rank from 1, (values,): the mean of their ranks for those that are equal."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(values) else order
    stops = np.append(starts[1:], len(values)) if len(values) else order
    found = np.empty(len(values))
    found[order] = np.repeat((starts + 1 + stops) / 2.0, stops - starts)
    return found


def spearman(guessed: Array, wanted: Array) -> float:
    """Return the correlation of the ranks, both (rows,): 0 of an answer that is the same for all; NaN of one target."""
    ours, theirs = (ranks - ranks.mean() for ranks in (mean_ranks(guessed), mean_ranks(wanted)))
    if not theirs.any():
        return math.nan
    scale = math.sqrt(float(np.square(ours).sum()) * float(np.square(theirs).sum()))
    return float((ours * theirs).sum()) / scale if scale else 0.0


def concordance(guessed: Array, wanted: Array) -> float:
    """Return the share of pairs of different targets that are predicted in their order, both (rows,); NaN of none.

    Equal predictions count half.
    """
    ours, theirs = (np.unique(each, return_inverse=True)[1].reshape(-1) for each in (guessed, wanted))
    pairs = len(theirs) * (len(theirs) - 1) // 2 - _pairs(theirs)
    if not pairs:
        return math.nan
    tied = _pairs(ours) - _pairs(theirs * len(ours) + ours)
    order = np.lexsort((-ours, theirs))  # of equal targets the larger first: they are in no order
    return (_rising_pairs(ours[order]) + tied / 2.0) / pairs


def _pairs(numbers: Array) -> int:
    """Return the pairs of equal numbers."""
    counts = np.unique(numbers, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def _rising_pairs(numbers: Array) -> int:
    """Return the pairs of a smaller number before a larger one, of whole numbers from 0, by merging sorted blocks."""
    most, width, found = len(numbers), 1, 0
    blocks = np.full(1 << max(most - 1, 0).bit_length(), most)  # filled up in front, with what no number is above
    blocks[len(blocks) - most :] = numbers
    while width < len(blocks):
        pairs = blocks.reshape(-1, 2 * width)
        begins = np.arange(len(pairs))
        keys = pairs + (begins * (most + 1))[:, None]
        below = np.searchsorted(keys[:, :width].reshape(-1), keys[:, width:].reshape(-1))
        found += int(below.sum()) - int(begins.sum()) * width * width
        pairs.sort(axis=1, kind="stable")
        width *= 2
    return found
