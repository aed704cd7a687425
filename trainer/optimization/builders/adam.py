"""Adam (arXiv:1412.6980), AdamW (arXiv:1711.05101), in 8 bits (arXiv:2110.02861), and Adafactor (arXiv:1804.04235)."""

from __future__ import annotations

from typing import Any

from torch.optim import Adafactor, Adam, AdamW, Optimizer

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.optimization.optimizer_sections import (
    AdafactorSection,
    Adam8bitSection,
    AdamSection,
    AdamwSection,
)


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


def build_adam8bit(section: Adam8bitSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return bitsandbytes' AdamW8bit; it keeps tensors of fewer than 4096 entries in 32 bits.

    Raises:
        ConfigurationError: bitsandbytes is missing or does not load here; no other optimizer takes its place.
    """
    try:
        from bitsandbytes.optim import AdamW8bit
    except (ImportError, OSError, RuntimeError) as error:
        raise ConfigurationError(
            f"`optimizer.name` = 'adam8bit' needs the package bitsandbytes, which does not load here: {error}.",
            remedy="Install it beside Trainwright (pip install bitsandbytes), or set optimizer.name adamw.",
            document="configs/README.md",
        ) from error
    optimizer: Optimizer = AdamW8bit(
        groups,
        lr=section.learning_rate,
        betas=section.betas,
        eps=section.eps,
        weight_decay=section.weight_decay,
    )
    return optimizer


def build_adafactor(section: AdafactorSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return torch's Adafactor, its rates relative to the size of the weights."""
    return Adafactor(
        groups,
        lr=section.learning_rate,
        beta2_decay=section.beta2_decay,
        eps=(None, section.minimum_scale),
        d=section.clip_threshold,
        weight_decay=section.weight_decay,
    )
