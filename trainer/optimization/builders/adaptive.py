"""Adaptive rates by coordinate: Adagrad (Duchi et al. 2011), Adadelta (Zeiler 2012), RMSprop (Hinton 2012)."""

from __future__ import annotations

from typing import Any

from torch.optim import Adadelta, Adagrad, Optimizer, RMSprop

from trainwright.trainer.optimization.optimizer_sections import AdadeltaSection, AdagradSection, RmspropSection


def build_adagrad(section: AdagradSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return torch's Adagrad."""
    return Adagrad(
        groups,
        lr=section.learning_rate,
        initial_accumulator_value=section.initial_accumulator,
        eps=section.eps,
        weight_decay=section.weight_decay,
    )


def build_adadelta(section: AdadeltaSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return torch's Adadelta."""
    return Adadelta(
        groups,
        lr=section.learning_rate,
        rho=section.rho,
        eps=section.eps,
        weight_decay=section.weight_decay,
    )


def build_rmsprop(section: RmspropSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return torch's RMSprop."""
    return RMSprop(
        groups,
        lr=section.learning_rate,
        alpha=section.alpha,
        eps=section.eps,
        momentum=section.momentum,
        centered=section.centered,
        weight_decay=section.weight_decay,
    )
