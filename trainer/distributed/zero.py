"""ZeRO stages 1 and 2 by DeepSpeed's engine: whole weights in each process, a part of the optimizer's state.

DeepSpeed divides, reduces, clips and updates. What it is not asked for: reading data, the schedule, scaling the loss,
and checkpoints, which hold each process's part of the optimizer's state as any other state of its own. In fp32 its main
copy of the weights equals the model's, so a checkpoint needs no second one.
"""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from trainwright.trainer.config.deepspeed import deepspeed_configuration
from trainwright.trainer.errors import ConfigurationError

if TYPE_CHECKING:
    from trainwright.trainer.session import Session


def load_deepspeed(device: str) -> Any:
    """Import DeepSpeed for a type of device.

    Raises:
        ConfigurationError: it is not installed, or does not load here.
    """
    os.environ.setdefault("DS_ACCELERATOR", device)
    try:
        import deepspeed
    except (ImportError, OSError, RuntimeError) as error:
        raise ConfigurationError(
            f"`distributed.strategy` = 'deepspeed' needs the package deepspeed, which does not load here: {error}.",
            remedy="Install it beside Trainwright (pip install 'trainwright[deepspeed]'), or set distributed.strategy "
            "ddp, or fsdp2 where the model does not fit.",
            document="configs/distributed.md",
        ) from error
    # A kernel for inference on the CPU would be compiled, whose shared memory all runs of a machine have in common.
    deepspeed.ops.__compatible_ops__ = {}
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed\.")  # its calls of torch
    return deepspeed


class Zero:
    """DeepSpeed's engine around what is measured.

    Gradients stay whole until the update's last backward pass, and are then summed in the parameters' order. Left to
    itself DeepSpeed sums them in the order in which each process comes by them: where processes use different
    parameters, it adds up what does not belong together and says nothing (seen with 0.19.8).
    """

    def __init__(self, session: Session, measured: nn.Module) -> None:
        (optimizer,) = session.optimizers.values()
        _require_fp32(session.model)
        self.trained = [parameter for parameter in session.parameters if parameter.requires_grad]
        given = deepspeed_configuration(session.config, sum(parameter.numel() for parameter in self.trained))
        deepspeed = load_deepspeed(session.device.type)
        try:
            self.engine: Any = deepspeed.initialize(
                model=_Computed(session, measured), optimizer=optimizer, config=given, dist_init_required=False
            )[0]
        except (ValueError, TypeError, AssertionError) as error:
            raise ConfigurationError(
                f"DeepSpeed {deepspeed.__version__} does not take `distributed.deepspeed`: {str(error)[:500]}",
                remedy="Correct the key that it names, or take it out.",
                document="configs/distributed.md",
            ) from error
        self.engine.set_gradient_accumulation_boundary(True)
        self._update = ExitStack()

    def backward(self, loss: Tensor, *, first: bool, last: bool) -> None:
        """Add to the gradients; after the last pass of an update they are the sums over all processes.

        Args:
            loss: this process's share of the update's loss.
        """
        if first:
            self._update.enter_context(self.engine.coalesce_grad_reduction())
        self.engine.backward(loss, scale_wrt_gas=False)
        if last:
            for parameter in self.trained:
                if parameter.grad is None:  # not used in this process
                    parameter.grad = torch.zeros_like(parameter)
            self._update.close()

    def norm(self) -> Tensor:
        """Return the norm of the whole gradient before clipping. All processes call it together."""
        norm: Tensor = self.engine.optimizer.scaled_global_norm()
        return torch.where(norm < 0, torch.nan, norm)  # DeepSpeed says -1 of one that is not finite

    def update(self) -> None:
        """Clip, update this process's part, and bring the whole weights together."""
        self.engine.step()

    def show_gradients(self) -> None:
        """Put the whole gradients back where they are looked for. All processes call it together."""
        from deepspeed.utils import safe_get_full_grad

        for parameter in self.trained:
            parameter.grad = safe_get_full_grad(parameter)

    def follow_weights(self) -> None:
        """Take over weights that were loaded into the model."""
        self.engine.optimizer.refresh_fp32_params()


class _Computed(nn.Module):
    """What is measured, in the run's precision: DeepSpeed switches an autocast around its engine off."""

    def __init__(self, session: Session, measured: nn.Module) -> None:
        super().__init__()
        self.measured = measured
        self._autocast = session.autocast

    def forward(self, batch: Any) -> Any:
        with self._autocast():
            return self.measured(batch)


def _require_fp32(model: nn.Module) -> None:
    other = next((name for name, p in model.named_parameters() if p.dtype != torch.float32), None)
    if other is not None:
        raise ConfigurationError(
            f"Parameter {other} is no fp32, and distributed.strategy deepspeed holds all weights in fp32.",
            remedy="Build the model in fp32 (training.precision bf16 still computes in bf16), or set "
            "distributed.strategy ddp.",
            document="configs/distributed.md",
        )
