"""Adam (Kingma and Ba 2015, arXiv:1412.6980), and AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101)."""

from __future__ import annotations

from typing import Any

from torch.optim import Adam, AdamW, Optimizer

from trainwright.trainer.config.optimizers import AdamSection, AdamwSection


def build_adam(section: AdamSection, groups: list[dict[str, Any]], *, fused: bool = False) -> Optimizer:
    """Return torch's Adam: weight decay is added to the gradient."""
    return Adam(
        groups,
        lr=section.learning_rate,
        betas=section.betas,
        eps=section.eps,
        weight_decay=section.weight_decay,
        fused=fused or None,
    )


def build_adamw(section: AdamwSection, groups: list[dict[str, Any]], *, fused: bool = False) -> Optimizer:
    """Return torch's AdamW: weight decay is taken off the weights."""
    return AdamW(
        groups,
        lr=section.learning_rate,
        betas=section.betas,
        eps=section.eps,
        weight_decay=section.weight_decay,
        fused=fused or None,
    )
