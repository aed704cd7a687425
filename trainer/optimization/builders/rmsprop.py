"""RMSprop: Hinton 2012, "Neural Networks for Machine Learning", lecture 6; centred: Graves 2013, arXiv:1308.0850."""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer, RMSprop

from trainwright.trainer.config.optimizers import RmspropSection


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
