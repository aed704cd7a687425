"""The arguments of the built-in losses."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from trainwright.trainer.base.section import Fraction, NonNegativeFloat, PositiveFloat, Probability, Section

Weights = Literal["balanced"] | Annotated[list[NonNegativeFloat], Field(min_length=1)]
"""balanced: measured on the train split; or one number for each class or label."""


def _some_weight(weights: object) -> object:
    if isinstance(weights, list) and not any(weights):
        raise ValueError("one of the weights must be above 0")
    return weights


class CrossEntropyArgs(Section):
    """Cross entropy."""

    label_smoothing: Probability = 0.0
    weights: Weights | None = None

    _some = field_validator("weights")(_some_weight)


class FocalArgs(Section):
    """The focal loss."""

    gamma: NonNegativeFloat = 2.0
    weights: Weights | None = None

    _some = field_validator("weights")(_some_weight)


class ClassBalancedArgs(Section):
    """Weights by the effective number of samples."""

    beta: Probability = 0.999
    gamma: NonNegativeFloat = 0.0
    label_smoothing: Probability = 0.0

    @model_validator(mode="after")
    def _one_of_two_losses(self) -> Self:
        if self.gamma and self.label_smoothing:
            raise ValueError("gamma (focal) and label_smoothing (cross entropy) exclude each other: set one to 0")
        return self


class BceWithLogitsArgs(Section):
    """Binary cross entropy."""

    pos_weight: Weights | NonNegativeFloat | None = None
    """Weight of the positives: balanced, one number, or one for each label."""

    _some = field_validator("pos_weight")(_some_weight)


class HuberArgs(Section):
    """Squared below delta, linear above."""

    delta: PositiveFloat = 1.0


class DiceArgs(Section):
    """The overlap of areas."""

    smooth: PositiveFloat = 1.0


class DiceCrossEntropyArgs(Section):
    """The overlap of areas, and every pixel."""

    smooth: PositiveFloat = 1.0
    dice_share: Fraction = 0.5


class NoArgs(Section):
    """A part that takes nothing."""


LOSSES: dict[str, type[Section]] = {
    "cross_entropy": CrossEntropyArgs,
    "focal": FocalArgs,
    "class_balanced": ClassBalancedArgs,
    "next_token": NoArgs,
    "bce_with_logits": BceWithLogitsArgs,
    "mse": NoArgs,
    "mae": NoArgs,
    "huber": HuberArgs,
    "dice": DiceArgs,
    "dice_cross_entropy": DiceCrossEntropyArgs,
}
