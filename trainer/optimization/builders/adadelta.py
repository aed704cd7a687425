"""Adadelta: Zeiler 2012, arXiv:1212.5701."""

from __future__ import annotations

from typing import Any

from torch.optim import Adadelta, Optimizer

from trainwright.trainer.config.optimizers import AdadeltaSection


def build_adadelta(section: AdadeltaSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return torch's Adadelta."""
    return Adadelta(
        groups,
        lr=section.learning_rate,
        rho=section.rho,
        eps=section.eps,
        weight_decay=section.weight_decay,
    )
