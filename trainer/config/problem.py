"""Problems of a configuration: each broken key in words, its document, and what would mend it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

OVERVIEW = "configs/README.md"
"""The keys that no other document explains, and where the others are."""
EXPLAINED_IN = {
    "model": "configs/models.md",
    "adapter": "configs/models.md",
    "data": "configs/data.md",
    "loss": "configs/losses.md",
    "metrics": "configs/losses.md",
    "mixing": "configs/losses.md",
    "task": "configs/your_code.md",
    "returns": "configs/your_code.md",
    "objective": "configs/objective_keys.md",
    "optimizer": "configs/optimizers.md",
    "freezing": "configs/optimizers.md",
    "schedule": "configs/schedules.md",
    "weight_averaging": "configs/averaging.md",
    "curriculum": "configs/curriculum.md",
    "progressive_resizing": "configs/curriculum.md",
    "distributed": "configs/distributed.md",
    "loader.prefetch_factor": "configs/performance.md",
    "loader.persistent_workers": "configs/performance.md",
    "training.precision": "configs/performance.md",
    "training.initial_loss_scale": "configs/performance.md",
    "training.loss_scale_growth_steps": "configs/performance.md",
    "training.gradient_checkpointing": "configs/performance.md",
    "training.compile": "configs/performance.md",
    "training.channels_last": "configs/performance.md",
    "data.split": OVERVIEW,
}
"""Beginning of a dotted key to the document; the longest one that fits holds, and OVERVIEW where none does."""


def document_for(keys: Sequence[str]) -> str:
    """Return the document that explains the first of these dotted keys."""
    parts = keys[0].split(".") if keys else []
    beginnings = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((EXPLAINED_IN[one] for one in beginnings if one in EXPLAINED_IN), OVERVIEW)


@dataclass(frozen=True)
class Problem:
    """One broken key."""

    key: str
    """Dotted; empty for a rule between sections."""
    text: str
    """Key, value, rule, and the nearest valid key."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Dotted changes that would mend it, where some are at hand; None takes a key out."""
    others: tuple[dict[str, Any], ...] = ()
    """Other changes that would do so instead."""


def as_yaml(value: Any) -> str:
    """Return a value as it is written in YAML, cut to 60 characters."""
    text = plain_yaml(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def plain_yaml(value: Any) -> str:
    """Return a flag or null as YAML has it, and anything else as text."""
    is_word = value is None or isinstance(value, bool)
    return {True: "true", False: "false", None: "null"}[value] if is_word else str(value)
