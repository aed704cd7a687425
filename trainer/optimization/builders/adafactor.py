"""Adafactor: Shazeer and Stern 2018, arXiv:1804.04235."""

from __future__ import annotations

from typing import Any

from torch.optim import Adafactor, Optimizer

from trainwright.trainer.config.optimizers import AdafactorSection


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
