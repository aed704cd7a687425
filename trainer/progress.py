"""Where a run stands: every number that the next step depends on, besides tensors and generators."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Best:
    """The best epoch so far by the selection metric."""

    epoch: int
    step: int
    value: float
    metrics: dict[str, float]
    checkpoint: str | None = None


@dataclass
class Progress:
    """Position and running state; checkpointed whole."""

    epoch: int = 0
    """Epochs completed."""
    batch: int = 0
    """Micro-batches of the present epoch that are done: the data position."""
    step: int = 0
    """Optimizer steps done."""
    samples: int = 0
    """Samples trained on."""
    best: Best | None = None
    epochs_without_improvement: int = 0
    stop_reason: str | None = None
    """Why training is over, once it is; a stop on request is not kept, so that the run can go on."""
    train_seconds: float = 0.0
    data_wait_seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    """One entry per validated epoch: epoch, step, train and validation values."""
    periodic: list[str] = field(default_factory=list)
    """Names of the periodic checkpoints."""

    def state_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Resume from a saved position."""
        best = state.get("best")
        vars(self).update({**state, "best": Best(**best) if best else None})
