"""Adagrad: Duchi, Hazan and Singer 2011 (JMLR 12)."""

from __future__ import annotations

from typing import Any

from torch.optim import Adagrad, Optimizer

from trainwright.trainer.config.optimizers import AdagradSection


def build_adagrad(section: AdagradSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return torch's Adagrad."""
    return Adagrad(
        groups,
        lr=section.learning_rate,
        initial_accumulator_value=section.initial_accumulator,
        eps=section.eps,
        weight_decay=section.weight_decay,
    )
