"""Metrics of predicted classes in numpy, from counts of targets: of all classes, of two, of labels, of masks.

As scikit-learn has them (Pedregosa et al. 2011); kappa: Cohen 1960, 1968; Dice without background, also of each image,
as segmentation reports it (Taha & Hanbury 2015, 10.1186/s12880-015-0068-x).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
IGNORED = -100
"""Targets of this value do not count (class numbers)."""


def is_by_token(outputs: Any, targets: Any) -> bool:
    """Return whether classes are the last dimension: (samples, tokens, classes) for targets (samples, tokens)."""
    return bool(outputs.ndim == 3 and outputs.shape[:2] == targets.shape and outputs.shape[2] > 1)


def is_one_logit(outputs: Any, targets: Any) -> bool:
    """Return whether outputs are one logit for each target, of two classes: (samples,) or (samples, 1, ...)."""
    return not is_by_token(outputs, targets) and (outputs.ndim == 1 or outputs.shape[1] == 1)


def predicted_classes(outputs: Any, targets: Any) -> Any:
    """Return class numbers: the largest of the classes' logits, or whether single logits are above 0.

    Classes are the last dimension of (samples, tokens, classes) for targets (samples, tokens), else the second. Takes
    numpy's arrays and torch's tensors.
    """
    if is_one_logit(outputs, targets):
        return outputs > 0
    return outputs.argmax(-1 if is_by_token(outputs, targets) else 1)


def has_labels(outputs: Array, targets: Array) -> bool:
    """Return whether targets are (samples, labels, ...) like the outputs: several yes or no for each sample."""
    return outputs.shape == targets.shape and outputs.ndim > 1 and outputs.shape[1] != 1


def of_labels(predicted: Array, targets: Array) -> bool:
    """Return whether it is predicted of each of several labels whether it is there, (samples, labels, ...)."""
    return predicted.dtype == np.bool_ and has_labels(predicted, targets)


def labels_of(outputs: Array, targets: Array) -> Iterator[tuple[Array, Array]]:
    """Yield outputs and targets of each label, both flat."""
    return ((outputs[:, label].reshape(-1), targets[:, label].reshape(-1)) for label in range(outputs.shape[1]))


def classes(outputs: Array, targets: Array) -> Array:
    """Return the predicted classes, whole numbers; of labels, (samples, labels, ...), whether each is predicted."""
    if has_labels(outputs, targets):
        return outputs > 0
    return np.asarray(predicted_classes(outputs, targets)).astype(np.int64, copy=False)


@dataclass(frozen=True)
class Counts:
    """Targets of each class: rightly predicted, predicted, and there; each (classes,) of whole numbers."""

    names: Array
    """Numbers of the classes that are predicted or there, in order."""
    hits: Array
    predicted: Array
    wanted: Array
    apart: Array = field(default_factory=partial(np.zeros, ()))
    """Sum of the squared differences of the predicted class numbers from the wanted ones, (): exact up to 2**53."""

    @classmethod
    def of(cls, predicted: Array, targets: Array) -> Counts:
        """Return the counts of classes predicted for targets, both (samples, ...), without those that are ignored.

        Of several labels each is a class, from number 1 on, which is there or not: class 0 is none.
        """
        if of_labels(predicted, targets):
            counted, wanted = targets != IGNORED, targets.astype(np.int64) == 1
            sides = (predicted & wanted, predicted & counted, wanted)
            hits, ours, theirs = (np.moveaxis(each, 1, -1).reshape(-1, each.shape[1]).sum(axis=0) for each in sides)
            there = np.flatnonzero(ours + theirs)
            return cls(there + 1, hits[there], ours[there], theirs[there])
        guessed, wanted = counted_targets(predicted, targets)
        wrong = guessed != wanted
        apart = np.asarray(np.square((guessed[wrong] - wanted[wrong]).astype(float)).sum())
        if guessed.size and _is_sparse(guessed, wanted):
            names, places = np.unique(np.concatenate([guessed, wanted]), return_inverse=True)
            guessed, wanted = places.reshape(2, -1)
            hits, ours, theirs = _occurrences(guessed, wanted, len(names))
            return cls(names, hits, ours, theirs, apart)
        size = int(max(guessed.max(), wanted.max())) + 1 if guessed.size else 0
        hits, ours, theirs = _occurrences(guessed, wanted, size)
        there = np.flatnonzero(ours + theirs)
        return cls(there, hits[there], ours[there], theirs[there], apart)

    def __add__(self, other: Counts) -> Counts:
        """Return the counts over two parts of a split together."""
        names, places = np.unique(np.concatenate([self.names, other.names]), return_inverse=True)
        columns = []
        for one, two in ((self.hits, other.hits), (self.predicted, other.predicted), (self.wanted, other.wanted)):
            columns.append(np.zeros(len(names), dtype=np.int64))
            np.add.at(columns[-1], places.reshape(-1), np.concatenate([one, two]))
        hits, predicted, wanted = columns
        return Counts(names, hits, predicted, wanted, np.asarray(self.apart + other.apart))

    @property
    def foreground(self) -> Counts:
        """The counts without class 0."""
        front = self.names != 0
        return Counts(self.names[front], self.hits[front], self.predicted[front], self.wanted[front])


@dataclass(frozen=True)
class Mean:
    """A sum of numbers and how many they are, both ()."""

    total: Array
    count: Array

    @classmethod
    def of(cls, values: Array) -> Mean:
        """Return the sum of numbers, (any,)."""
        return cls(np.asarray(values.sum(dtype=float)), np.asarray(values.size))

    def __add__(self, other: Mean) -> Mean:
        """Return the sum over two parts of a split together."""
        return Mean(np.asarray(self.total + other.total), np.asarray(self.count + other.count))

    @property
    def value(self) -> float:
        """The mean; NaN of nothing."""
        return share(float(self.total), int(self.count))


def counted_targets(values: Array, targets: Array) -> tuple[Array, Array]:
    """Return values and targets that count, flat, as whole numbers. Raises ValueError when they hold other counts."""
    found, wanted = values.reshape(-1), targets.reshape(-1).astype(np.int64, copy=False)
    if found.size != wanted.size:
        raise ValueError(f"{found.size} predicted classes for {wanted.size} targets")
    if wanted.size and wanted.min() <= IGNORED:
        counted = wanted != IGNORED
        found, wanted = found[counted], wanted[counted]
    return (found.astype(np.int64, copy=False) if found.dtype.kind != "f" else found), wanted


def accuracy(predicted: Array, targets: Array) -> float:
    """Share of targets, (samples, ...), whose class is right: of samples, tokens not ignored, or all labels."""
    guessed, wanted = counted_targets(predicted, targets)
    return int(np.count_nonzero(guessed == wanted)) / wanted.size if wanted.size else math.nan


def of_classes(name: str, predicted: Array, targets: Array) -> float:
    """Return a metric of OF_COUNTS from predicted classes and targets, (samples, ...).

    Those of whole answers are, of several labels, the mean of each label's.
    """
    if name in OF_EACH_LABEL and of_labels(predicted, targets):
        return mean(OF_COUNTS[name](Counts.of(*label)) for label in labels_of(predicted, targets))
    return OF_COUNTS[name](Counts.of(predicted, targets))


def by_image(name: str, outputs: Array, targets: Array) -> Array:
    """Return a metric of each sample's mask, (samples,): 1 where neither side has foreground, NaN where all is ignored.

    Raises:
        ValueError: a sample has one target alone, or outputs and targets are not of one size.
    """
    if targets.ndim < 2 or targets[0].size < 2:
        raise ValueError("it is of masks: targets (samples, height, width)")
    predicted, found = classes(outputs, targets), np.full(len(targets), math.nan)
    if len(predicted) != len(targets):
        raise ValueError(f"{len(predicted)} predicted masks for {len(targets)}")
    for row in range(len(targets)):
        counts = Counts.of(predicted[row : row + 1], targets[row : row + 1])
        if counts.wanted.size:
            found[row] = OF_COUNTS[name](counts) if counts.foreground.names.size else 1.0
    return found


def _recall(counts: Counts) -> float:
    there = counts.wanted > 0
    return float((counts.hits[there] / counts.wanted[there]).mean()) if there.any() else math.nan


def _correlation(counts: Counts) -> float:
    guessed, true = counts.predicted.astype(float), counts.wanted.astype(float)
    count, right = float(guessed.sum()), float(counts.hits.sum())
    scale = float((count**2 - np.square(guessed).sum()) * (count**2 - np.square(true).sum()))
    return (right * count - float((guessed * true).sum())) / math.sqrt(scale) if scale > 0 else 0.0


def _kappa(counts: Counts) -> float:
    """Agreement beyond that of answers drawn by the shares of both sides; NaN where one class alone occurs."""
    rows = float(counts.wanted.sum())
    by_chance = float((counts.predicted / rows * (counts.wanted / rows)).sum()) if rows else 1.0
    return share(counts.hits.sum() / max(rows, 1.0) - by_chance, 1.0 - by_chance)


def _quadratic_kappa(counts: Counts) -> float:
    """The same with disagreement by the squared difference of the class numbers."""
    at, rows = (counts.names - counts.names[:1]).astype(float), float(counts.wanted.sum())
    squares = rows * float((np.square(at) * (counts.predicted + counts.wanted)).sum())
    by_chance = squares - 2.0 * float((at * counts.predicted).sum()) * float((at * counts.wanted).sum())
    return 1.0 - share(rows * float(counts.apart), by_chance)


def _of_one(counts: Counts) -> tuple[int, int, int]:
    """Return of class 1 the targets that are hit, predicted, and there. Raises ValueError for a third class."""
    if (third := counts.names[(counts.names != 0) & (counts.names != 1)]).size:
        raise ValueError(f"it is of classes 0 and 1, and there is class {third[-1]}")
    one = counts.names == 1
    return int(counts.hits[one].sum()), int(counts.predicted[one].sum()), int(counts.wanted[one].sum())


def _f_of_one(beta: float, counts: Counts) -> float:
    hits, predicted, wanted = _of_one(counts)
    return share((1.0 + beta**2) * hits, beta**2 * wanted + predicted)


def _precision(counts: Counts) -> float:
    hits, predicted, _ = _of_one(counts)
    return hits / predicted if predicted else 0.0


def _recall_of_one(counts: Counts) -> float:
    hits, _, wanted = _of_one(counts)
    return share(hits, wanted)


def _specificity(counts: Counts) -> float:
    hits, predicted, wanted = _of_one(counts)
    negatives = int(counts.wanted.sum()) - wanted
    return share(negatives - (predicted - hits), negatives)


def _f1_of_each(counts: Counts) -> Array:
    return np.asarray(2.0 * counts.hits / (counts.predicted + counts.wanted))


def _precision_of_each(counts: Counts) -> Array:
    return np.asarray(counts.hits / np.maximum(counts.predicted, 1))


def _iou(counts: Counts) -> float:
    return mean((counts.hits / (counts.predicted + counts.wanted - counts.hits)).tolist())


OF_COUNTS: dict[str, Callable[[Counts], float]] = {
    "accuracy": lambda counts: share(int(counts.hits.sum()), int(counts.wanted.sum())),
    "balanced_accuracy": _recall,
    "f1": lambda counts: mean(_f1_of_each(counts).tolist()),
    "precision_macro": lambda counts: mean(_precision_of_each(counts).tolist()),
    "recall_macro": lambda counts: mean((counts.hits / np.maximum(counts.wanted, 1)).tolist()),
    "f1_weighted": lambda counts: share((_f1_of_each(counts) * counts.wanted).sum(), counts.wanted.sum()),
    "precision_weighted": lambda counts: share((_precision_of_each(counts) * counts.wanted).sum(), counts.wanted.sum()),
    "recall_weighted": lambda counts: share(counts.hits.sum(), counts.wanted.sum()),
    "f1_micro": lambda counts: share(2.0 * counts.hits.sum(), counts.predicted.sum() + counts.wanted.sum()),
    "precision_micro": lambda counts: share(counts.hits.sum(), counts.predicted.sum() or counts.wanted.sum()),
    "recall_micro": lambda counts: share(counts.hits.sum(), counts.wanted.sum()),
    "matthews_correlation": _correlation,
    "cohen_kappa": _kappa,
    "quadratic_kappa": _quadratic_kappa,
    "mean_iou": _iou,
    "foreground_iou": lambda counts: _iou(counts.foreground),
    "dice": lambda counts: mean(_f1_of_each(counts.foreground).tolist()),
    "f1_binary": partial(_f_of_one, 1.0),
    "f2_binary": partial(_f_of_one, 2.0),
    "f05_binary": partial(_f_of_one, 0.5),
    "precision_binary": _precision,
    "recall_binary": _recall_of_one,
    "specificity": _specificity,
}
"""Value of a metric of classes from their counts."""
OF_ONE_CLASS = frozenset({"f1_binary", "f2_binary", "f05_binary", "precision_binary", "recall_binary", "specificity"})
"""Metrics of class 1 of two."""
OF_EACH_LABEL = OF_ONE_CLASS | {"balanced_accuracy", "matthews_correlation", "cohen_kappa", "quadratic_kappa"}
"""Metrics that weigh a label's no, too."""


def share(part: float, whole: float) -> float:
    """Return a part of a whole; NaN of nothing."""
    return float(part) / float(whole) if whole else math.nan


def mean(values: Iterable[float]) -> float:
    """Return the mean; NaN of nothing."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else math.nan


def _occurrences(guessed: Array, wanted: Array, size: int) -> tuple[Array, Array, Array]:
    """Return how often each class, (size,), is rightly guessed, guessed, and wanted."""
    both = (wanted[guessed == wanted], guessed, wanted)
    hits, ours, theirs = (np.bincount(numbers, minlength=size) for numbers in both)
    return hits, ours, theirs


def _is_sparse(guessed: Array, wanted: Array) -> bool:
    """Return whether a table by class number would be far larger than the samples, or cannot be."""
    return bool(min(guessed.min(), wanted.min()) < 0 or max(guessed.max(), wanted.max()) > 1024 + 4 * wanted.size)
