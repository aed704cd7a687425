"""The losses by name, with the arguments that each takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.losses import classes, values
from trainwright.trainer.losses.arguments import LOSSES
from trainwright.trainer.losses.loss import Compute, Loss

BUILT_IN = tuple(LOSSES)


def built_in_loss(name: str, args: Mapping[str, Any]) -> Loss:
    """Return a built-in loss.

    Raises:
        pydantic.ValidationError: arguments that the schema of a configuration refuses.
    """
    section = LOSSES[name].model_validate(dict(args))
    return MAKERS[name](name, **{key: _as_tensor(getattr(section, key)) for key in type(section).model_fields})


def _as_tensor(value: Any) -> Any:
    """Return a list of weights as a tensor; anything else as it is."""
    return torch.tensor(value, dtype=torch.float32) if isinstance(value, list) else value


def _weighted(plain: Loss, make: Callable[[Tensor | None], Compute], weights: Any, rule: Any) -> Loss:
    """Return a loss with constant weights, or with weights that `rule` measures on the train split."""
    if weights is None or isinstance(weights, Tensor):
        return replace(plain, compute=make(weights), weights=weights)
    plain = replace(plain, compute=make(None))

    def measure(counts: Tensor) -> Loss:
        found = rule(counts)
        return replace(plain, compute=make(found), weights=found, measure=None)

    return replace(plain, measure=measure)


def _cross_entropy(name: str, label_smoothing: float, weights: Any) -> Loss:
    plain = Loss(name, classes.cross_entropy(), task="classification", soft_targets=True)
    return _weighted(plain, lambda w: classes.cross_entropy(label_smoothing, w), weights, classes.balanced)


def _focal(name: str, gamma: float, weights: Any) -> Loss:
    plain = Loss(name, classes.focal(gamma), task="classification")
    return _weighted(plain, lambda w: classes.focal(gamma, w), weights, classes.balanced)


def _class_balanced(name: str, beta: float, gamma: float, label_smoothing: float) -> Loss:
    def make(weights: Tensor | None) -> Compute:
        return classes.focal(gamma, weights) if gamma else classes.cross_entropy(label_smoothing, weights)

    plain = Loss(name, make(None), task="classification", soft_targets=not gamma)
    return _weighted(plain, make, "balanced", classes.effective_numbers(beta))


def _bce(name: str, pos_weight: Any) -> Loss:
    if isinstance(pos_weight, float):
        pos_weight = torch.tensor([pos_weight], dtype=torch.float32)
    plain = Loss(name, values.bce_with_logits(), task="binary")
    return _weighted(plain, values.bce_with_logits, pos_weight, values.negatives_per_positive)


def _overlap(name: str, smooth: float, dice_share: float = 1.0) -> Loss:
    compute = classes.dice(smooth)
    if name == "dice_cross_entropy":
        compute = classes.dice_cross_entropy(smooth, dice_share)
    return Loss(name, compute, task="classification", by_sample=True)


MAKERS: dict[str, Callable[..., Loss]] = {
    "cross_entropy": _cross_entropy,
    "focal": _focal,
    "class_balanced": _class_balanced,
    "next_token": lambda name: Loss(name, classes.next_token, task="language_model"),
    "bce_with_logits": _bce,
    "mse": lambda name: Loss(name, values.mse, task="regression"),
    "mae": lambda name: Loss(name, values.mae, task="regression"),
    "huber": lambda name, delta: Loss(name, values.huber(delta), task="regression"),
    "dice": _overlap,
    "dice_cross_entropy": _overlap,
}
