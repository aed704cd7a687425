"""Totals of an epoch: its loss, and the outputs and targets from which metrics are computed, or sums of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.base.errors import DataError, UserCodeError
from trainwright.trainer.data.tensors import IGNORED, LOWEST, joined
from trainwright.trainer.metrics import fold
from trainwright.trainer.objectives.objective import Outcome, Work

READ_EVERY = 512
FOLD_AT_BYTES = 1 << 24
"""Of outputs and targets: they are folded into sums then, where the metrics need no more."""


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
    sums: dict[str, Any] | None = None
    """What stands for earlier outputs and targets (metrics/sums.py)."""
    kept_bytes: int = 0
    """Of outputs and targets, since they were folded."""
    folds: bool = True
    """False once it was found that the metrics need all outputs and targets."""

    def add(self, outcome: Outcome, count: int, *, gather: bool) -> None:
        """Add one micro-batch. Raises UserCodeError for an output that has not the form of the batches before it."""
        self.add_loss(outcome.loss.detach(), count)
        if gather and isinstance(outcome.output, Tensor) and isinstance(outcome.target, Tensor):
            for what, value, kept in (
                ("output", outcome.output, self.outputs),
                ("target", outcome.target, self.targets),
            ):
                if value.dim() == 0 or (kept and kept[0].dim() != value.dim()):
                    raise _other_form(what, value, kept)
            self.outputs.append(outcome.output.detach().float())
            self.targets.append(outcome.target.detach())
            self.kept_bytes += self.outputs[-1].nbytes + self.targets[-1].nbytes

    def fold(self, work: Work, least_bytes: int | None = None) -> None:
        """Put sums in the place of at least so many bytes of outputs and targets, where the metrics need no more.

        Raises:
            DataError: they have another form than earlier ones, so that no figure could be of all.
        """
        least_bytes = FOLD_AT_BYTES if least_bytes is None else least_bytes
        if not self.folds or self.kept_bytes < least_bytes or (gathered := self.gathered()) is None:
            return
        if (sums := fold(work.metrics, *gathered, task=work.task, before=self.sums)) is None:
            if self.sums is not None:
                forms = " and ".join(str(tuple(each.shape)) for each in gathered)
                raise DataError(
                    f"Outputs and targets of shape {forms} cannot be counted with the earlier ones of the epoch.",
                    remedy="Give every batch targets of one kind: a class number each, or a row of labels each.",
                )
            self.folds = False
            return
        self.sums, self.outputs, self.targets, self.kept_bytes = sums, [], [], 0

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
        """Return outputs and targets, (samples, ...), on the CPU, or None when nothing was gathered."""
        if not self.outputs:
            return None
        return joined(self.outputs, LOWEST).cpu(), joined(self.targets, IGNORED).cpu()

    def reset(self) -> None:
        """Begin an epoch."""
        self.loss_sum, self.count = 0.0, 0
        self.unread, self.outputs, self.targets = [], [], []
        self.sums, self.kept_bytes = None, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        self.read()
        names = ("loss_sum", "count", "outputs", "targets", "sums", "kept_bytes")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Resume from a saved state."""
        self.reset()
        self.loss_sum, self.count = state["loss_sum"], state["count"]
        self.outputs, self.targets = state["outputs"], state["targets"]
        self.sums, self.kept_bytes = state.get("sums"), state.get("kept_bytes", 0)


def _other_form(what: str, value: Tensor, kept: list[Tensor]) -> UserCodeError:
    before = f", and the batches before it {tuple(kept[0].shape)}" if kept else ""
    return UserCodeError(
        f"The {what} of a batch has the shape {tuple(value.shape)}{before}: the dimension of the batch is lost.",
        remedy="Write .squeeze(-1) in place of .squeeze(), which takes away every dimension of size 1, that of a batch "
        "of one sample too.",
    )
