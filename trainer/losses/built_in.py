"""Built-in losses: the arguments of each, its purpose, and how it is built of them.

Free of torch, for the server reads arguments too: the arithmetic (loss.py) is imported where a loss is built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from trainwright.trainer.base.section import Fraction, NonNegativeFloat, PositiveFloat, Probability, Section

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright.trainer.losses.loss import Compute, Loss

Weights = Literal["balanced"] | Annotated[list[NonNegativeFloat], Field(min_length=1)]
"""balanced: measured on the train split; or one number for each class or label."""


def _some_weight(weights: object) -> object:
    if isinstance(weights, list) and not any(weights):
        raise ValueError("one of the weights must be above 0")
    return weights


class LossSection(Section):
    """A loss's arguments, and the loss made of them.

    Attributes:
        name: by which a configuration chooses it.
        task: the kind of targets, as of `Loss`; `by_sample` too.
        hard_targets: it takes class numbers only.
        of_a_task: one of several tasks may have it: one class number per sample, or one number per output.
        weighs: the argument with a weight for each class or label.
    """

    name: ClassVar[str]
    task: ClassVar[str] = "classification"
    by_sample: ClassVar[bool] = False
    hard_targets: ClassVar[bool] = False
    of_a_task: ClassVar[bool] = False
    weighs: ClassVar[str] = ""

    @property
    def soft_targets(self) -> bool:
        """Whether targets may be a share for each class in place of class numbers."""
        return self.task == "classification" and not self.hard_targets

    def build(self) -> Loss:
        """Return the loss; weights that are measured on the train split are equal until then."""
        import torch

        from trainwright.trainer.losses.loss import Loss

        options = {key: getattr(self, key) for key in type(self).model_fields if key != self.weighs}
        make = partial(self.function(), **options)
        plain = Loss(self.name, make(), task=self.task, by_sample=self.by_sample, soft_targets=self.soft_targets)

        def weighted(weights: Tensor) -> Loss:
            return replace(plain, compute=make(weights=weights), weights=weights)

        given = getattr(self, self.weighs, None)
        if given == "balanced":
            rule = self.rule()
            return replace(plain, measure=lambda counts: weighted(rule(counts)))
        given = [given] if isinstance(given, float) else given
        return plain if given is None else weighted(torch.tensor(given, dtype=torch.float32))

    def function(self) -> Callable[..., Compute]:
        """Return the factory of the function of output and target, from the arguments and `weights` if it has any."""
        from trainwright.trainer.losses import loss

        made: Callable[..., Compute] = getattr(loss, self.name)
        return made

    def rule(self) -> Callable[[Tensor], Tensor]:
        """Return the rule from counts of the train split's targets, (classes,), to balanced weights, (classes,)."""
        from trainwright.trainer.losses import loss

        return loss.balanced


class CrossEntropy(LossSection):
    """Cross entropy."""

    name = "cross_entropy"
    of_a_task = True
    weighs = "weights"

    label_smoothing: Probability = 0.0
    weights: Weights | None = None

    _some = field_validator("weights")(_some_weight)


class Focal(LossSection):
    """The focal loss."""

    name = "focal"
    hard_targets = True
    of_a_task = True
    weighs = "weights"

    gamma: NonNegativeFloat = 2.0
    weights: Weights | None = None

    _some = field_validator("weights")(_some_weight)


class ClassBalanced(LossSection):
    """Weights by the effective number of samples."""

    name = "class_balanced"
    weighs = "weights"
    weights: ClassVar[str] = "balanced"

    beta: Probability = 0.999
    gamma: NonNegativeFloat = 0.0
    label_smoothing: Probability = 0.0

    @model_validator(mode="after")
    def _one_of_two_losses(self) -> Self:
        if self.gamma and self.label_smoothing:
            raise ValueError("gamma (focal) and label_smoothing (cross entropy) exclude each other: set one to 0")
        return self

    @property
    def soft_targets(self) -> bool:
        """Whether it is cross entropy that is weighted."""
        return not self.gamma

    def rule(self) -> Callable[[Tensor], Tensor]:
        """Return the rule by the effective number of samples: counts (classes,) to weights (classes,)."""
        from trainwright.trainer.losses import loss

        return loss.effective_numbers(self.beta)


class NextToken(LossSection):
    """A part that takes nothing."""

    name = "next_token"
    task = "language_model"
    hard_targets = True


class MaskedToken(NextToken):
    """A part that takes nothing."""

    name = "masked_token"

    def function(self) -> Callable[..., Compute]:
        """Return the factory of the next token's loss: the targets alone differ."""
        from trainwright.trainer.losses import loss

        return loss.next_token


class BceWithLogits(LossSection):
    """Binary cross entropy."""

    name = "bce_with_logits"
    task = "binary"
    of_a_task = True
    weighs = "pos_weight"

    pos_weight: Weights | NonNegativeFloat | None = None
    """Weight of the positives: balanced, one number, or one for each label."""

    _some = field_validator("pos_weight")(_some_weight)

    def rule(self) -> Callable[[Tensor], Tensor]:
        """Return the rule that levels both sides of each label: counts (2, labels) to weights (labels,)."""
        from trainwright.trainer.losses import loss

        return loss.negatives_per_positive


class Mse(LossSection):
    """A part that takes nothing."""

    name = "mse"
    task = "regression"
    of_a_task = True


class Mae(Mse):
    """A part that takes nothing."""

    name = "mae"


class Huber(Mse):
    """Squared below delta, linear above."""

    name = "huber"

    delta: PositiveFloat = 1.0


class Dice(LossSection):
    """The overlap of areas."""

    name = "dice"
    by_sample = True
    hard_targets = True

    smooth: PositiveFloat = 1.0


class DiceCrossEntropy(Dice):
    """The overlap of areas, and every pixel."""

    name = "dice_cross_entropy"

    dice_share: Fraction = 0.5
