"""Losses as the engine knows them, functions that make the built-in ones, each by its name, and rules for weights.

Every mean is over the targets that count, not over their weights: so a micro-batch weighs as many terms as it has, and
accumulation equals the large batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

from trainwright.trainer.data.tensors import IGNORED

Compute = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Loss:
    """A loss with its name: `compute(output, target)` is a mean over the batch, a scalar tensor."""

    name: str
    compute: Compute
    user_defined: bool = False
    task: str | None = None
    """classification, language_model, binary, regression; None where only the user knows."""
    by_sample: bool = False
    """Whether the mean is over samples regardless of ignored targets; else over the class numbers that count."""
    soft_targets: bool = False
    """Whether targets may be a share for each class in place of class numbers."""
    weights: Tensor | None = None
    """One per class (or label), where the loss has any: their number must fit the model's outputs."""
    measure: Callable[[Tensor], Loss] | None = None
    """Makes the loss itself from the number of train targets by class (for binary: negatives and positives by label).

    Until it has been called `compute` has equal weights.
    """

    @property
    def of_classes(self) -> bool:
        """Whether its targets are class numbers."""
        return self.task in {"classification", "language_model"}

    def count(self, target: Any) -> int:
        """Return how many terms the mean of this batch is over, for weighting micro-batches."""
        if self.of_classes and not self.by_sample and isinstance(target, Tensor) and not target.is_floating_point():
            if target.is_cpu and target.numel() and target.min().item() > IGNORED:  # half the time of counting
                return target.numel()
            return int((target.long() != IGNORED).sum())
        return len(target)


def class_numbers(target: Any, output: Any) -> Any:
    """Return whole numbers, (batch, ...), of any type and beside outputs (batch, classes) also (batch, 1), as int64.

    Anything else is returned as it is: there is one way to read a class number in a column of its own.
    """
    if not isinstance(target, Tensor) or target.is_floating_point() or target.is_complex():
        return target
    is_column = target.dim() == 2 and target.shape[1] == 1 and isinstance(output, Tensor) and output.dim() == 2
    return (target[:, 0] if is_column else target).long()


class Weights:
    """Constant weights, moved once to where they are needed."""

    def __init__(self, values: Tensor) -> None:
        self.values = values.float()

    def at(self, device: torch.device) -> Tensor:
        """Return them, (classes,) or (labels,), on the device."""
        if self.values.device != device:
            self.values = self.values.to(device)
        return self.values


def dice(smooth: float) -> Compute:
    """Return 1 - the soft Dice coefficient, a mean over samples and classes (Milletari et al. 2016, arXiv:1606.04797).

    2 |P T| / (|P| + |T|), with `smooth` added above and below; pixels that are ignored count on neither side.
    """

    def compute(output: Tensor, target: Tensor) -> Tensor:
        counted = (target != IGNORED).unsqueeze(1)
        probabilities = F.softmax(output.float(), dim=1) * counted
        wanted = F.one_hot(torch.where(counted[:, 0], target, 0), output.shape[1]).movedim(-1, 1) * counted
        overlap, sizes = (probabilities * wanted).flatten(2).sum(2), (probabilities + wanted).flatten(2).sum(2)
        return 1.0 - ((2.0 * overlap + smooth) / (sizes + smooth)).mean()

    return compute


def dice_cross_entropy(smooth: float, dice_share: float) -> Compute:
    """Return dice_share of Dice, the rest cross entropy, a mean over samples of their pixels' (Isensee et al. 2018)."""
    overlap = dice(smooth)

    def compute(output: Tensor, target: Tensor) -> Tensor:
        terms = F.cross_entropy(output.float(), target, ignore_index=IGNORED, reduction="none").flatten(1).sum(1)
        pixels = (target != IGNORED).flatten(1).sum(1).clamp(min=1)
        return dice_share * overlap(output, target) + (1.0 - dice_share) * (terms / pixels).mean()

    return compute


def by_class(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits (terms, classes) and targets (terms).

    Of output (batch, classes), (batch, time, classes) with targets (batch, time), or (batch, classes, ...).
    """
    if output.dim() == 3 and target.dim() == 2 and output.shape[:2] == target.shape:
        return output.flatten(0, 1), target.flatten()
    return output.movedim(1, -1).reshape(-1, output.shape[1]), target.reshape(-1)


def cross_entropy(label_smoothing: float = 0.0, weights: Tensor | None = None) -> Compute:
    """Return cross entropy with label smoothing (Szegedy et al. 2016) and weights (classes,).

    Of an output with places beside the samples, (batch, classes, ...), each place's term is summed here: torch's own
    mean and sum of them have no deterministic kernel on CUDA, and flattening would copy the logits.
    """
    held = None if weights is None else Weights(weights)

    def compute(output: Tensor, target: Tensor) -> Tensor:
        if output.dim() == 3 and target.dim() == 2 and output.shape[:2] == target.shape:
            output, target = output.flatten(0, 1), target.flatten()
        by_place = output.dim() > 2 and not target.is_floating_point()
        if held is None and not by_place:
            mean = F.cross_entropy(output, target, label_smoothing=label_smoothing, ignore_index=IGNORED)
            return mean if target.is_floating_point() else _of_some(mean, target)
        weight = None if held is None else held.at(output.device)
        total = F.cross_entropy(
            output if weight is None else output.float(), target, weight, reduction="none" if by_place else "sum",
            label_smoothing=label_smoothing, ignore_index=IGNORED,
        ).sum()  # fmt: skip
        if target.is_floating_point():
            return total / (target.numel() // output.shape[1])
        return total / (target != IGNORED).sum().clamp(min=1)

    return compute


def _of_some(mean: Tensor, target: Tensor) -> Tensor:
    """Return the mean of a batch, a scalar; 0 where no target counts: 0 / 0 is no loss that is not finite."""
    return torch.where((target != IGNORED).any(), mean, 0.0)


def class_balanced(
    beta: float,  # noqa: ARG001 - for the weights
    gamma: float,
    label_smoothing: float,
    weights: Tensor | None = None,
) -> Compute:
    """Return the focal loss where `gamma` asks for it, else cross entropy; weights (classes,) after Cui et al. 2019."""
    return focal(gamma, weights) if gamma else cross_entropy(label_smoothing, weights)


def next_token() -> Compute:
    """Return torch's cross entropy in nats of output (batch, time, vocabulary); target (batch, time): the next ones."""
    return lambda output, target: _of_some(
        F.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=IGNORED), target
    )


def focal(gamma: float, weights: Tensor | None = None) -> Compute:
    """Return the focal loss, -(1 - p)^gamma log p of the true class (Lin et al. 2017, arXiv:1708.02002).

    Over the softmax of all classes; `weights`, (classes,), is its alpha.
    """
    held = None if weights is None else Weights(weights)

    def compute(output: Tensor, target: Tensor) -> Tensor:
        logits, wanted = by_class(output, target)
        counted = wanted != IGNORED
        safe = torch.where(counted, wanted, 0)
        log_p = F.log_softmax(logits.float(), dim=1).gather(1, safe[:, None])[:, 0]
        wrong = (-torch.expm1(log_p)).clamp(min=1e-8)  # 1 - p; its power has no slope at 0 for gamma below 1
        terms = -(wrong**gamma) * log_p * counted
        if held is not None:
            terms = terms * held.at(output.device)[safe]
        return terms.sum() / counted.sum().clamp(min=1)

    return compute


def mse() -> Compute:
    """Return the mean squared difference (torch's mse_loss)."""
    return lambda output, target: F.mse_loss(output.reshape(target.shape), target.to(output.dtype))


def mae() -> Compute:
    """Return the mean absolute difference (torch's l1_loss)."""
    return lambda output, target: F.l1_loss(output.reshape(target.shape), target.to(output.dtype))


def huber(delta: float) -> Compute:
    """Return the Huber loss: squared below `delta`, linear above it (Huber 1964)."""
    return lambda output, target: F.huber_loss(output.reshape(target.shape), target.to(output.dtype), delta=delta)


def bce_with_logits(weights: Tensor | None = None) -> Compute:
    """Return binary cross entropy of logits, the positive term times torch's `pos_weight`, (labels,) or (1,)."""
    held = None if weights is None else Weights(weights)

    def compute(output: Tensor, target: Tensor) -> Tensor:
        weight = None if held is None else held.at(output.device)
        return F.binary_cross_entropy_with_logits(
            output.reshape(target.shape), target.to(output.dtype), pos_weight=weight
        )

    return compute


def negatives_per_positive(counts: Tensor) -> Tensor:
    """Return the pos_weight under which both sides of each label weigh the same, (labels,); `counts` (2, labels)."""
    return (counts[0].clamp(min=1).double() / counts[1].clamp(min=1).double()).float()


def effective_numbers(beta: float) -> Callable[[Tensor], Tensor]:
    """Return counts' weights, both (classes,), by the inverse effective number of samples, (1 - beta^n) / (1 - beta).

    Cui et al. 2019, arXiv:1901.05555; scaled so that the mean weight of a train sample is 1, which keeps the size of
    the gradient (theirs sum to the number of classes).
    """
    return lambda counts: _mean_one((1.0 - beta) / (1.0 - beta ** counts.clamp(min=1).double()), counts)


def balanced(counts: Tensor) -> Tensor:
    """Return weights by the inverse of counts, both (classes,): all classes weigh the same, samples 1 on average."""
    return _mean_one(1.0 / counts.clamp(min=1).double(), counts)


def _mean_one(weights: Tensor, counts: Tensor) -> Tensor:
    return (weights * counts.sum() / (weights * counts).sum()).float()
