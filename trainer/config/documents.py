"""Which document explains a key, so that an error can name it."""

from __future__ import annotations

from collections.abc import Sequence

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
