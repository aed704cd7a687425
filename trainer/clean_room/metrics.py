"""Metrics in numpy, from all outputs and targets of a split: of classes, of ranks, of numbers, of language.

As scikit-learn has them (Pedregosa et al. 2011); bits per byte: Gao et al. 2020, arXiv:2101.00027. Each is computed in
two steps: what it keeps of a batch of outputs (the predicted classes, say, in place of a language model's logits), and
its value from all that was kept and the targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from . import numbers, rouge
from .entities import entity_f1, tags
from .spans import best_spans, exact_match, span_f1

Array = np.ndarray[Any, Any]
IGNORED = -100
"""Targets of this value do not count (class numbers)."""


def predicted_classes(outputs: Any, targets: Any) -> Any:
    """Return class numbers: the largest of the classes' logits, or whether single logits are above 0.

    Classes are the last dimension of (samples, tokens, classes) for targets (samples, tokens), else the second. Takes
    numpy's arrays and torch's tensors.
    """
    by_token = outputs.ndim == 3 and outputs.shape[:2] == targets.shape and outputs.shape[2] > 1
    if not by_token and (outputs.ndim == 1 or outputs.shape[1] == 1):
        return outputs > 0
    return outputs.argmax(-1 if by_token else 1)


def has_labels(outputs: Array, targets: Array) -> bool:
    """Return whether targets are (samples, labels, ...) like the outputs: several yes or no for each sample."""
    return outputs.shape == targets.shape and outputs.ndim > 1 and outputs.shape[1] != 1


def classes(outputs: Array, targets: Array) -> Array:
    """Return the predicted classes, whole numbers; of labels, (samples, labels, ...), whether each is predicted."""
    if has_labels(outputs, targets):
        return outputs > 0
    return np.asarray(predicted_classes(outputs, targets)).astype(np.int64, copy=False)


def scores(outputs: Array, targets: Array) -> Array:
    """Return what ranks samples: of two classes the difference of their logits, (samples,); else the outputs."""
    if outputs.ndim == 2 and outputs.shape[1] == 2 and not has_labels(outputs, targets):
        return np.asarray(outputs[:, 1] - outputs[:, 0])
    return outputs


def in_shape(outputs: Array, targets: Array) -> Array:
    """Return the outputs in the shape of the targets. Raises ValueError when they hold other counts."""
    return outputs.reshape(targets.shape)


@dataclass(frozen=True)
class Counts:
    """Targets of each class: rightly predicted, predicted, and there; each (classes,) of whole numbers."""

    names: Array
    """Numbers of the classes that are predicted or there, in order."""
    hits: Array
    predicted: Array
    wanted: Array

    @classmethod
    def of(cls, predicted: Array, targets: Array) -> Counts:
        """Return the counts of classes predicted for targets, both (samples, ...), without those that are ignored."""
        guessed, wanted = _counted(predicted, targets)
        if guessed.size and _is_sparse(guessed, wanted):
            names, places = np.unique(np.concatenate([guessed, wanted]), return_inverse=True)
            guessed, wanted = places.reshape(2, -1)
            return cls(names, *_occurrences(guessed, wanted, len(names)))
        size = int(max(guessed.max(), wanted.max())) + 1 if guessed.size else 0
        hits, ours, theirs = _occurrences(guessed, wanted, size)
        there = np.flatnonzero(ours + theirs)
        return cls(there, hits[there], ours[there], theirs[there])

    def __add__(self, other: Counts) -> Counts:
        """Return the counts over two parts of a split together."""
        names, places = np.unique(np.concatenate([self.names, other.names]), return_inverse=True)
        columns = []
        for one, two in ((self.hits, other.hits), (self.predicted, other.predicted), (self.wanted, other.wanted)):
            columns.append(np.zeros(len(names), dtype=np.int64))
            np.add.at(columns[-1], places.reshape(-1), np.concatenate([one, two]))
        return Counts(names, *columns)


def accuracy(predicted: Array, targets: Array) -> float:
    """Share of targets, (samples, ...), whose class is right: of samples, tokens not ignored, or all labels."""
    guessed, wanted = _counted(predicted, targets)
    return int(np.count_nonzero(guessed == wanted)) / wanted.size if wanted.size else math.nan


def balanced_accuracy(predicted: Array, targets: Array) -> float:
    """Mean over the classes in targets (samples, ...) of the share of each that is right; of labels, their mean."""
    if of_labels(predicted, targets):
        return _mean(balanced_accuracy(*label) for label in _labels(predicted, targets))
    return OF_COUNTS["balanced_accuracy"](Counts.of(predicted, targets))


def mean_iou(predicted: Array, targets: Array) -> float:
    """Mean over the classes, predicted or in targets (samples, ...), of |both| / |either|, over all pixels together."""
    return OF_COUNTS["mean_iou"](Counts.of(predicted, targets))


def f1(predicted: Array, targets: Array) -> float:
    """Mean over classes or labels in outputs or targets (samples, ...) of the harmonic mean of precision and recall."""
    if not of_labels(predicted, targets):
        return OF_COUNTS["f1"](Counts.of(predicted, targets))
    pairs = [_counted(*label) for label in _labels(predicted, targets)]
    hits = np.array([2.0 * np.count_nonzero((guessed == 1) & (wanted == 1)) for guessed, wanted in pairs])
    sizes = np.array([np.count_nonzero(guessed == 1) + np.count_nonzero(wanted == 1) for guessed, wanted in pairs])
    return _mean_share(hits, sizes)


def matthews_correlation(predicted: Array, targets: Array) -> float:
    """Correlation with the targets' classes, (samples, ...), in [-1, 1] (Gorodkin 2004); 0 if either has one class."""
    if of_labels(predicted, targets):
        return _mean(matthews_correlation(*label) for label in _labels(predicted, targets))
    return OF_COUNTS["matthews_correlation"](Counts.of(predicted, targets))


def auc(ranked: Array, targets: Array) -> float:
    """Area under the ROC curve of scores for two classes, ties counted half; NaN when only one class occurs.

    Equals the Mann-Whitney U statistic divided by the number of pairs; their mean for targets (samples, labels).
    """
    if has_labels(ranked, targets):
        return _mean(auc(*label) for label in _labels(ranked, targets))
    values, positive = ranked.reshape(-1).astype(float, copy=False), targets.reshape(-1) > 0
    if len(values) != len(positive):
        raise ValueError(f"{len(values)} scores for {len(positive)} targets")
    positives = int(np.count_nonzero(positive))
    pairs = positives * (len(positive) - positives)
    if not pairs:
        return math.nan
    order = np.argsort(values)
    ordered = values[order]
    starts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    stops = np.append(starts[1:], len(ordered))
    hits = np.add.reduceat(positive[order].astype(np.int64), starts)
    ranks = float((hits * ((starts + 1 + stops) / 2.0)).sum())  # mean rank of equal scores, from 1
    return (ranks - positives * (positives + 1) / 2) / pairs


def perplexity(mean_loss: float, bytes_per_target: float) -> float:  # noqa: ARG001 - the form of these metrics
    """e to the mean loss: the number of equally likely tokens that leaves one as unsure; infinity beyond floats."""
    return math.exp(mean_loss) if mean_loss < 700.0 else math.inf


def bits_per_byte(mean_loss: float, bytes_per_target: float) -> float:
    """Bits to code a byte of the text with the model: comparable between tokenizers."""
    return mean_loss / math.log(2.0) / bytes_per_target


def _recall(counts: Counts) -> float:
    there = counts.wanted > 0
    return float((counts.hits[there] / counts.wanted[there]).mean()) if there.any() else math.nan


def _correlation(counts: Counts) -> float:
    guessed, true = counts.predicted.astype(float), counts.wanted.astype(float)
    count, right = float(guessed.sum()), float(counts.hits.sum())
    scale = float((count**2 - np.square(guessed).sum()) * (count**2 - np.square(true).sum()))
    return (right * count - float((guessed * true).sum())) / math.sqrt(scale) if scale > 0 else 0.0


OF_COUNTS: dict[str, Callable[[Counts], float]] = {
    "accuracy": lambda counts: int(counts.hits.sum()) / int(counts.wanted.sum()) if counts.wanted.size else math.nan,
    "balanced_accuracy": _recall,
    "f1": lambda counts: _mean_share(2.0 * counts.hits, counts.predicted + counts.wanted),
    "matthews_correlation": _correlation,
    "mean_iou": lambda counts: _mean_share(counts.hits, counts.predicted + counts.wanted - counts.hits),
}
"""Value of a metric of classes from their counts."""
Step = Callable[[Array, Array], Any]


def _of_numbers(name: str, outputs: Array, targets: Array) -> float:
    return numbers.value_of(name, numbers.Sums.of(outputs, targets, {name}))


OF_OUTPUTS: dict[str, tuple[Step, Step]] = {
    "accuracy": (classes, accuracy),
    "balanced_accuracy": (classes, balanced_accuracy),
    "f1": (classes, f1),
    "matthews_correlation": (classes, matthews_correlation),
    "auc": (scores, auc),
    "mean_iou": (classes, mean_iou),
    "entity_f1": (tags, entity_f1),
    "exact_match": (best_spans, exact_match),
    "span_f1": (best_spans, span_f1),
    **{name: (in_shape, partial(_of_numbers, name)) for name in numbers.OF_SUMS},
}
"""What a metric keeps of outputs and targets, and its value from what was kept and the targets."""
OF_TWO_CLASSES = frozenset({"auc", "matthews_correlation"})
"""Metrics that compare classes; of a single one they are NaN, or 0 whatever is predicted."""
OF_LOSS: dict[str, Callable[[float, float], float]] = {"perplexity": perplexity, "bits_per_byte": bits_per_byte}
"""Value from (mean loss in nats, bytes per target)."""
OF_TEXTS = frozenset(rouge.OF_TEXTS)
"""Metrics of texts that a model writes word by word, which no program of one step does."""


def compute(name: str, outputs: Array, targets: Array) -> float:
    """Return a metric of outputs and targets, first dimension samples. Raises ValueError where they do not fit it."""
    kept, value = OF_OUTPUTS[name]
    with np.errstate(over="ignore", invalid="ignore"):  # NaN and infinity give a number, or NaN, and no warning
        return float(value(kept(outputs, targets), targets))


def problem_of(name: str, kept: Array, targets: Array, names: Sequence[str] = ()) -> str:
    """Return why a metric of outputs says nothing about these targets; empty where it does.

    Args:
        name: the metric.
        kept: what it keeps of the outputs (OF_OUTPUTS).
        targets: first dimension samples.
        names: of the classes, or of the labels, by their numbers.
    """
    if name in numbers.OF_SUMS:
        return numbers.problem_of(name, numbers.Sums.of(kept, targets, {name}))
    labels = name == "auc" and has_labels(kept, targets)
    for number, column in enumerate(np.moveaxis(targets, 1, 0) if labels else [targets]):
        wanted = column[column != IGNORED]
        found = np.unique(wanted)
        if not len(found):
            return "no target counts: all are ignored (-100)"
        if len(found) == 1 and name in OF_TWO_CLASSES:
            value = int(found[0])
            of = f"label {_named(number, names)} is {value}" if labels else f"the class is {_named(value, names)}"
            return f"{of} in all {wanted.size} rows, and {name} compares two"
    return ""


def _named(number: int, names: Sequence[str]) -> str:
    return repr(names[number]) if 0 <= number < len(names) else str(number)


def _counted(predicted: Array, targets: Array) -> tuple[Array, Array]:
    guessed, wanted = predicted.reshape(-1), targets.reshape(-1).astype(np.int64, copy=False)
    if guessed.size != wanted.size:
        raise ValueError(f"{guessed.size} predicted classes for {wanted.size} targets")
    if wanted.size and wanted.min() <= IGNORED:
        counted = wanted != IGNORED
        guessed, wanted = guessed[counted], wanted[counted]
    return guessed.astype(np.int64, copy=False), wanted


def _occurrences(guessed: Array, wanted: Array, size: int) -> tuple[Array, Array, Array]:
    """Return how often each class, (size,), is rightly guessed, guessed, and wanted."""
    both = (wanted[guessed == wanted], guessed, wanted)
    hits, ours, theirs = (np.bincount(numbers, minlength=size) for numbers in both)
    return hits, ours, theirs


def _is_sparse(guessed: Array, wanted: Array) -> bool:
    """Return whether a table by class number would be far larger than the samples, or cannot be."""
    return bool(min(guessed.min(), wanted.min()) < 0 or max(guessed.max(), wanted.max()) > 1024 + 4 * wanted.size)


def of_labels(predicted: Array, targets: Array) -> bool:
    """Return whether it is predicted of each of several labels whether it is there, (samples, labels, ...)."""
    return predicted.dtype == np.bool_ and has_labels(predicted, targets)


def _labels(outputs: Array, targets: Array) -> Iterator[tuple[Array, Array]]:
    return ((outputs[:, label].reshape(-1), targets[:, label].reshape(-1)) for label in range(outputs.shape[1]))


def _mean(values: Iterator[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else math.nan


def _mean_share(parts: Array, wholes: Array) -> float:
    there = wholes > 0
    return _mean(iter((parts[there] / wholes[there]).tolist()))
