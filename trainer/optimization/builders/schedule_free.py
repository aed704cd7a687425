"""Schedule-Free learning: Defazio et al. 2024, arXiv:2405.15682. Its warmup is that of the schedule section.

The model holds the training point; averaging.py holds the averaged weights in it where they are wanted.
"""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer

from trainwright.trainer.optimization.optimizer_sections import ScheduleFreeAdamwSection, ScheduleFreeSgdSection


def build_schedule_free_adamw(section: ScheduleFreeAdamwSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return pytorch-optimizer's Schedule-Free AdamW."""
    from pytorch_optimizer import ScheduleFreeAdamW

    return ScheduleFreeAdamW(
        groups,
        lr=section.learning_rate,
        betas=section.betas,
        eps=section.eps,
        weight_decay=section.weight_decay,
    )


def build_schedule_free_sgd(section: ScheduleFreeSgdSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return pytorch-optimizer's Schedule-Free SGD."""
    from pytorch_optimizer import ScheduleFreeSGD

    return ScheduleFreeSGD(
        groups,
        lr=section.learning_rate,
        momentum=section.momentum,
        weight_decay=section.weight_decay,
    )
