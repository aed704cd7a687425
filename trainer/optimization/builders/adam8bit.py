"""AdamW with moments in 8 bits, by block: Dettmers et al. 2022, arXiv:2110.02861."""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer

from trainwright.trainer.config.optimizers import Adam8bitSection
from trainwright.trainer.errors import ConfigurationError


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
