"""Losses by name: each has its arguments, its kind and its `build` in one class, and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainwright.trainer.losses.built_in import (
    BceWithLogits,
    ClassBalanced,
    CrossEntropy,
    Dice,
    DiceCrossEntropy,
    Focal,
    Huber,
    LossSection,
    Mae,
    MaskedToken,
    Mse,
    NextToken,
)
from trainwright.trainer.losses.log_cosh import LogCosh
from trainwright.trainer.losses.quantile import Quantile

if TYPE_CHECKING:
    from trainwright.trainer.losses.loss import Loss

FORMS: tuple[type[LossSection], ...] = (
    CrossEntropy, Focal, ClassBalanced, NextToken, MaskedToken, BceWithLogits, Mse, Mae, Huber, LogCosh, Quantile,
    Dice, DiceCrossEntropy,
)  # fmt: skip
LOSSES = {form.name: form for form in FORMS}


def built_in_loss(name: str, args: Mapping[str, Any]) -> Loss:
    """Return a built-in loss.

    Raises:
        pydantic.ValidationError: arguments that the schema of a configuration refuses.
    """
    return LOSSES[name].model_validate(dict(args)).build()
