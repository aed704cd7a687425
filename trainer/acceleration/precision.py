"""The number format of a run: fp32, tf32 and bf16 as device settings, fp16 with a scaled loss.

fp16 has no values below 6e-8, so the loss is multiplied before the backward pass and the gradients divided after it
(Micikevicius et al. 2018, arXiv:1710.03740). Gradients that overflowed mean too large a scale: that update is left
out and the scale halved. It is no divergence; a loss that is not finite is, and so is a gradient that stays so
however small the scale.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.schema import TrainingSection

MINIMUM_SCALE = 2.0**-14
"""A gradient that overflows below this scale is not too large for fp16: it is not finite."""
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def apply_precision(training: TrainingSection, device: torch.device) -> None:
    """Set how exactly this process multiplies fp32 matrices. fp32 means fp32: TF32 only on request.

    Raises:
        ConfigurationError: the device has no TF32.
    """
    tf32 = training.precision == "tf32"
    if tf32 and not has_tf32(device):
        raise ConfigurationError(
            f"`training.precision` = 'tf32', and the device ({device.type}) has no TF32.",
            remedy="Set training.precision to fp32 or bf16; TF32 needs an NVIDIA GPU of compute capability 8.0.",
            document="configs/performance.md",
        )
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32


def has_tf32(device: torch.device) -> bool:
    """Return whether the device multiplies fp32 matrices in TF32 when it may."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 8


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context in which forward passes run."""
    dtype = AUTOCAST.get(precision)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


class Scaling:
    """Losses as they are: the scaling of every precision but fp16.

    Attributes:
        leaves_out_overflow: whether a gradient that is not finite may come of the scale, and is no divergence.
    """

    leaves_out_overflow: bool = False

    @property
    def skipped_updates(self) -> int:
        """Updates left out so far."""
        return 0

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss (a scalar) to call `backward` on."""
        return loss

    def unscale(self, optimizers: Iterable[Optimizer]) -> None:
        """Divide the gradients by the scale, before they are measured and clipped."""

    def update(self, norm: Tensor) -> dict[str, Tensor]:  # noqa: ARG002 - the scaler of fp16 needs it
        """Adapt the scale after the update of `norm` (a scalar) was applied or left out; return the step's values."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Resume from a checkpoint's state."""


class LossScaler(Scaling):
    """Scales the loss of fp16 and leaves out updates whose gradients overflowed."""

    leaves_out_overflow = True

    def __init__(self, training: TrainingSection, device: torch.device) -> None:
        self._scaler = torch.amp.GradScaler(
            device.type, init_scale=training.initial_loss_scale, growth_interval=training.loss_scale_growth_steps
        )
        self._one = torch.ones((), device=device)
        self._skipped: Tensor = torch.zeros((), device=device)

    @property
    def skipped_updates(self) -> int:
        """Updates left out so far. Waits for the device."""
        return int(self._skipped.item())

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss (a scalar) to call `backward` on."""
        scaled: Tensor = self._scaler.scale(loss)
        return scaled

    def unscale(self, optimizers: Iterable[Optimizer]) -> None:
        """Divide the gradients by the scale, before they are measured and clipped."""
        for optimizer in optimizers:
            self._scaler.unscale_(optimizer)

    def update(self, norm: Tensor) -> dict[str, Tensor]:
        """Adapt the scale after the update of `norm` (a scalar) was applied or left out; return the step's values."""
        scale = self._scaler.scale(self._one).clone()
        skipped = (~torch.isfinite(norm)).float().reshape(())
        self._skipped += skipped
        self._scaler.update()
        return {"loss_scale": scale, "update_skipped": skipped}

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"scaler": self._scaler.state_dict(), "skipped": self.skipped_updates}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Resume from a checkpoint's state."""
        self._scaler.load_state_dict(state["scaler"])
        self._skipped.fill_(state["skipped"])


def build_scaler(training: TrainingSection, device: torch.device, *, own_updates: bool) -> Scaling:
    """Return how a run scales its losses: a scaler under fp16, else nothing.

    Raises:
        ConfigurationError: the updates are made by the user's train_step, whose losses the engine cannot scale.
    """
    if training.precision != "fp16":
        return Scaling()
    if own_updates:
        raise ConfigurationError(
            "`training.precision` = 'fp16' needs the loss scaled before its backward pass, and `train_step` does that "
            "pass itself.",
            remedy="Set training.precision to bf16 or fp32, or hand over `step` instead of `train_step`.",
            document="configs/performance.md",
        )
    return LossScaler(training, device)
