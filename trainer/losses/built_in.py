"""The losses by name, with the arguments that each takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.losses import classes, segmentation, values
from trainwright.trainer.losses.loss import Compute, Loss

ARGUMENTS: dict[str, dict[str, Any]] = {
    "cross_entropy": {"label_smoothing": 0.0, "weights": None},
    "focal": {"gamma": 2.0, "weights": None},
    "class_balanced": {"beta": 0.999, "gamma": 0.0, "label_smoothing": 0.0},
    "next_token": {},
    "bce_with_logits": {"pos_weight": None},
    "mse": {},
    "mae": {},
    "huber": {"delta": 1.0},
    "dice": {"smooth": 1.0},
    "dice_cross_entropy": {"smooth": 1.0, "dice_share": 0.5},
}
"""Name to its arguments with their defaults."""
BUILT_IN = tuple(ARGUMENTS)

RANGES: dict[str, tuple[str, Callable[[float], bool]]] = {
    "label_smoothing": ("in [0, 1); 0.1 is usual", lambda value: 0.0 <= value < 1.0),
    "gamma": ("0 or more; 2 is usual", lambda value: value >= 0.0),
    "beta": ("in [0, 1); 0.99 to 0.9999 are usual", lambda value: 0.0 <= value < 1.0),
    "delta": ("above 0", lambda value: value > 0.0),
    "smooth": ("above 0", lambda value: value > 0.0),
    "dice_share": ("in [0, 1]", lambda value: 0.0 <= value <= 1.0),
}


def built_in_loss(name: str, args: Mapping[str, Any]) -> Loss:
    """Return a built-in loss. Raises ConfigurationError for an argument it does not have or that is out of range."""
    allowed = ARGUMENTS[name]
    if unknown := set(args) - set(allowed):
        raise ConfigurationError(
            f"`loss.args` of {name} has no {sorted(unknown)[0]!r}.",
            remedy=f"It takes: {', '.join(sorted(allowed)) or 'no arguments'}.",
        )
    given = {key: _checked(key, args.get(key, default)) for key, default in allowed.items()}
    return MAKERS[name](name, **given)


def _checked(key: str, value: Any) -> Any:
    if key in {"weights", "pos_weight"}:
        return _checked_weights(key, value)
    rule, fits = RANGES[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not fits(float(value)):
        raise ConfigurationError(f"`loss.args.{key}` = {value!r}: must be {rule}.", remedy=f"Set it {rule}.")
    return float(value)


def _checked_weights(key: str, value: Any) -> Any:
    if value is None or value == "balanced":
        return value
    numbers = [value] if isinstance(value, int | float) else value
    fits = isinstance(numbers, list) and all(
        isinstance(number, int | float) and not isinstance(number, bool) and 0.0 <= number < float("inf")
        for number in numbers
    )
    if not fits or not any(numbers):
        raise ConfigurationError(
            f"`loss.args.{key}` = {value!r}: must be a list of numbers, 0 or more, one per class or label.",
            remedy=f"Set {key}: balanced, which measures them on the train split, or a list such as [1.0, 5.0].",
        )
    return torch.tensor(numbers, dtype=torch.float32)


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
    if gamma and label_smoothing:
        raise ConfigurationError(
            "`loss.args` of class_balanced: gamma (focal) and label_smoothing (cross entropy) exclude each other.",
            remedy="Set one of them to 0.",
        )

    def make(weights: Tensor | None) -> Compute:
        return classes.focal(gamma, weights) if gamma else classes.cross_entropy(label_smoothing, weights)

    plain = Loss(name, make(None), task="classification", soft_targets=not gamma)
    return _weighted(plain, make, "balanced", classes.effective_numbers(beta))


def _bce(name: str, pos_weight: Any) -> Loss:
    plain = Loss(name, values.bce_with_logits(), task="binary")
    return _weighted(plain, values.bce_with_logits, pos_weight, values.negatives_per_positive)


def _overlap(name: str, smooth: float, dice_share: float = 1.0) -> Loss:
    compute = segmentation.dice(smooth)
    if name == "dice_cross_entropy":
        compute = segmentation.dice_cross_entropy(smooth, dice_share)
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
