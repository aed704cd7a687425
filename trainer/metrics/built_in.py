"""Metrics from gathered outputs and targets on the CPU: of classes, of numbers, of language.

As scikit-learn has them (Pedregosa et al. 2011); bits per byte: Gao et al. 2020, arXiv:2101.00027.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Metric:
    """A named number over a split: `compute(outputs, targets)`, first dimension samples."""

    name: str
    compute: Callable[[Any, Any], Any]
    user_defined: bool = False
    tasks: tuple[str, ...] = ()
    """The kinds of loss it makes sense with; empty: any."""
    of_loss: Callable[[float, float], float] | None = None
    """Value from (mean loss in nats, bytes per target): it then needs no outputs, and compute is never called."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Lowest and highest value."""
    minimize: bool = False
    """Whether lower is better."""


def predicted_classes(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return class numbers: the largest of the classes' logits, or the sign of single logits.

    Classes are the last dimension of (samples, tokens, classes) for targets (samples, tokens), else the second.
    """
    if outputs.dim() == 1 or outputs.shape[1] == 1:
        return (outputs > 0).long()
    by_token = outputs.dim() == 3 and outputs.shape[:2] == targets.shape
    return outputs.argmax(dim=-1 if by_token else 1)


def by_label(outputs: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]] | None:
    """Return the logits and targets of each label where targets are (samples, labels, ...) like the outputs."""
    if outputs.shape != targets.shape or outputs.dim() < 2 or outputs.shape[1] == 1:
        return None
    return [(outputs[:, label].reshape(-1), targets[:, label].reshape(-1)) for label in range(outputs.shape[1])]


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """Share of targets, (samples, ...), whose class is right: of samples, tokens not ignored, or all labels."""
    if by_label(outputs, targets) is not None:
        outputs, targets = outputs.reshape(-1), targets.reshape(-1)
    predicted, wanted = _counted(outputs, targets)
    return float((predicted == wanted).double().mean())


def balanced_accuracy(outputs: Tensor, targets: Tensor) -> float:
    """Mean over the classes in targets (samples, ...) of the share of each that is right; of labels, their mean."""
    import torch

    labels = by_label(outputs, targets)
    if labels is not None:
        return sum(balanced_accuracy(*label) for label in labels) / len(labels)
    predicted, wanted = _counted(outputs, targets)
    shares = [(predicted[wanted == label] == label).double().mean() for label in torch.unique(wanted)]
    return float(torch.stack(shares).mean()) if shares else float("nan")


def mean_iou(outputs: Tensor, targets: Tensor) -> float:
    """Mean over the classes, predicted or in targets (samples, ...), of |both| / |either|, over all pixels together."""
    import torch

    predicted, wanted = _counted(outputs, targets)
    pairs = [(predicted == label, wanted == label) for label in torch.unique(torch.cat([predicted, wanted]))]
    scores = [int((one & other).sum()) / int((one | other).sum()) for one, other in pairs]
    return sum(scores) / len(scores) if scores else float("nan")


def f1(outputs: Tensor, targets: Tensor) -> float:
    """Mean over classes or labels in outputs or targets (samples, ...) of the harmonic mean of precision and recall."""
    import torch

    labels = by_label(outputs, targets)
    if labels is not None:
        pairs = [(predicted == 1, wanted == 1) for predicted, wanted in (_counted(*label) for label in labels)]
    else:
        predicted, wanted = _counted(outputs, targets)
        pairs = [(predicted == label, wanted == label) for label in torch.unique(torch.cat([predicted, wanted]))]
    totals = [(int((one & other).sum()), int(one.sum() + other.sum())) for one, other in pairs]
    scores = [2.0 * hits / total for hits, total in totals if total]
    return sum(scores) / len(scores) if scores else float("nan")


def matthews_correlation(outputs: Tensor, targets: Tensor) -> float:
    """Correlation with the targets' classes, (samples, ...), in [-1, 1] (Gorodkin 2004); 0 if either has one class."""
    import torch

    labels = by_label(outputs, targets)
    if labels is not None:
        return sum(matthews_correlation(*label) for label in labels) / len(labels)
    predicted, wanted = _counted(outputs, targets)
    classes, place = torch.unique(torch.stack([predicted, wanted]), return_inverse=True)
    guessed, true = (torch.bincount(row, minlength=len(classes)).double() for row in place)
    count, right = float(predicted.numel()), float((predicted == wanted).sum())
    scale = (count**2 - guessed.square().sum()) * (count**2 - true.square().sum())
    return float((right * count - (guessed * true).sum()) / scale.sqrt()) if scale > 0 else 0.0


def auc(outputs: Tensor, targets: Tensor) -> float:
    """Area under the ROC curve for two classes, ties counted half; NaN when only one class occurs.

    Equals the Mann-Whitney U statistic divided by the number of pairs; their mean for targets (samples, labels).
    """
    import torch

    labels = by_label(outputs, targets)
    if labels is not None:
        return sum(auc(*label) for label in labels) / len(labels)
    scores = outputs[:, 1] - outputs[:, 0] if outputs.dim() == 2 and outputs.shape[1] == 2 else outputs.reshape(-1)
    positive = targets.reshape(-1) > 0
    _, place, counts = torch.unique(scores.double(), return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0).double() - (counts.double() - 1) / 2)[place]  # mean rank of equal scores, from 1
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        return float("nan")
    return (float(ranks[positive].sum()) - positives * (positives + 1) / 2) / (positives * negatives)


def mae(outputs: Tensor, targets: Tensor) -> float:
    """Mean absolute difference from targets (samples, ...)."""
    return float((outputs.double().reshape(targets.shape) - targets.double()).abs().mean())


def r2(outputs: Tensor, targets: Tensor) -> float:
    """Share that is explained of the variance of targets (samples, ...); NaN when they do not vary."""
    wanted = targets.double()
    rest = (outputs.double().reshape(targets.shape) - wanted).square().sum().item()
    total = (wanted - wanted.mean()).square().sum().item()
    return 1.0 - rest / total if total > 0 else float("nan")


def perplexity(mean_loss: float, bytes_per_target: float) -> float:  # noqa: ARG001 - the form of these metrics
    """e to the mean loss: the number of equally likely tokens that leaves one as unsure; infinity beyond floats."""
    return math.exp(mean_loss) if mean_loss < 700.0 else math.inf


def bits_per_byte(mean_loss: float, bytes_per_target: float) -> float:
    """Bits to code a byte of the text with the model: comparable between tokenizers."""
    return mean_loss / math.log(2.0) / bytes_per_target


def _no_outputs(*_: Any) -> float:
    raise AssertionError("computed from the mean loss")


def _counted(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    predicted, wanted = predicted_classes(outputs, targets).reshape(-1), targets.reshape(-1).long()
    counted = wanted != -100
    return predicted[counted], wanted[counted]


CLASSES, LANGUAGE = ("classification", "binary"), ("language_model",)
SHARE, ANY_COST = (0.0, 1.0), (0.0, math.inf)
BUILT_IN: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", accuracy, tasks=CLASSES, bounds=SHARE),
        Metric("balanced_accuracy", balanced_accuracy, tasks=CLASSES, bounds=SHARE),
        Metric("f1", f1, tasks=CLASSES, bounds=SHARE),
        Metric("matthews_correlation", matthews_correlation, tasks=CLASSES, bounds=(-1.0, 1.0)),
        Metric("auc", auc, tasks=CLASSES, bounds=SHARE),
        Metric("mean_iou", mean_iou, tasks=("classification",), bounds=SHARE),
        Metric("mae", mae, tasks=("regression",), bounds=ANY_COST, minimize=True),
        Metric("r2", r2, tasks=("regression",), bounds=(-math.inf, 1.0)),
        Metric("perplexity", _no_outputs, tasks=LANGUAGE, of_loss=perplexity, bounds=(1.0, math.inf), minimize=True),
        Metric("bits_per_byte", _no_outputs, tasks=LANGUAGE, of_loss=bits_per_byte, bounds=ANY_COST, minimize=True),
    )
}


def built_in_metric(name: str) -> Metric:
    """Return a built-in metric by name. Raises KeyError."""
    return BUILT_IN[name]
