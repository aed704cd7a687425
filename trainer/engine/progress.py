"""Progress: the position in training, and the sums of an epoch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.objectives.objective import Outcome


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


READ_EVERY = 512


@dataclass
class EpochTotals:
    """Sums over an epoch, kept on the device until someone reads them."""

    loss_sum: float = 0.0
    """Sum of mean losses times their counts, added one after the other, as far as they were read."""
    count: int = 0
    unread: list[tuple[Tensor, int]] = field(default_factory=list)
    """Losses with their counts that are still on the device."""
    outputs: list[Tensor] = field(default_factory=list)
    targets: list[Tensor] = field(default_factory=list)

    def add(self, outcome: Outcome, count: int, *, gather: bool) -> None:
        """Add one micro-batch."""
        self.add_loss(outcome.loss.detach(), count)
        if gather and isinstance(outcome.output, Tensor) and isinstance(outcome.target, Tensor):
            self.outputs.append(outcome.output.detach().float())
            self.targets.append(outcome.target.detach())

    def add_loss(self, loss: Tensor, count: int) -> None:
        """Add a micro-batch's mean loss (a scalar). Waits for the device once in many steps."""
        self.count += count
        self.unread.append((loss, count))
        if len(self.unread) >= READ_EVERY:
            self.read()

    def read(self) -> None:
        """Take the waiting losses into the sum, in their order: the sum does not depend on when this is called."""
        unread, self.unread = self.unread, []
        if unread:
            for loss, (_, count) in zip(torch.stack([loss for loss, _ in unread]).tolist(), unread, strict=True):
                self.loss_sum += loss * count

    @property
    def loss(self) -> float:
        """Mean loss; NaN before the first batch. Waits for the device."""
        self.read()
        return self.loss_sum / self.count if self.count else float("nan")

    def gathered(self) -> tuple[Tensor, Tensor] | None:
        """Return (outputs, targets) of all samples on the CPU, or None when nothing was gathered."""
        if not self.outputs:
            return None
        return torch.cat(self.outputs).cpu(), torch.cat(self.targets).cpu()

    def reset(self) -> None:
        """Begin an epoch."""
        self.loss_sum, self.count = 0.0, 0
        self.unread, self.outputs, self.targets = [], [], []

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        self.read()
        return {"loss_sum": self.loss_sum, "count": self.count, "outputs": self.outputs, "targets": self.targets}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Resume from a saved state."""
        self.reset()
        self.loss_sum, self.count = state["loss_sum"], state["count"]
        self.outputs, self.targets = state["outputs"], state["targets"]
