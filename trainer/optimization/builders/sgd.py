"""Stochastic gradient descent with momentum: Polyak 1964; Nesterov's form after Sutskever et al. 2013 (ICML)."""

from __future__ import annotations

from typing import Any

from torch.optim import SGD, Optimizer

from trainwright.trainer.optimization.optimizer_sections import SgdSection


def build_sgd(section: SgdSection, groups: list[dict[str, Any]], *, fused: bool = False) -> Optimizer:
    """Return torch's SGD."""
    return SGD(
        groups,
        lr=section.learning_rate,
        momentum=section.momentum,
        nesterov=section.nesterov,
        weight_decay=section.weight_decay,
        fused=fused or None,
    )
