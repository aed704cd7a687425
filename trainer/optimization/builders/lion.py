"""Lion, evolved sign momentum: Chen et al. 2023, arXiv:2302.06675."""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer

from trainwright.trainer.optimization.optimizer_sections import LionSection


def build_lion(section: LionSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return pytorch-optimizer's Lion."""
    from pytorch_optimizer import Lion

    return Lion(
        groups,
        lr=section.learning_rate,
        betas=section.betas,
        weight_decay=section.weight_decay,
    )
