"""ZeRO stages 1 and 2 by DeepSpeed's engine: full weights in each process, a part of the optimizer's state.

Rajbhandari et al. 2020, arXiv:1910.02054. DeepSpeed divides, reduces, clips and updates. This engine does the rest:
reading data, the schedule, scaling the loss, and checkpoints, which hold each process's part of the optimizer's state
separately. In fp32 its main copy of the weights equals the model's: no checkpoint needs a second.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.distributed import deepspeed_configuration
from trainwright.trainer.config.schema import TrainingSection
from trainwright.trainer.engine.session import Session
from trainwright.trainer.optimization.update import Again
from trainwright.trainer.strategies.group import Group, load_deepspeed
from trainwright.trainer.strategies.parallel import OWN_STATE, Shared


class DeepSpeed(Shared):
    """Full weights in every process, and an engine that divides, clips and updates.

    Gradients stay undivided until the update's last backward pass, and are then summed in the parameters' order. By
    default DeepSpeed sums them in the order in which each process computes them: where processes use different
    parameters, it silently adds gradients of different ones (seen with 0.19.8).
    """

    checks_first = True
    own_state = (*OWN_STATE, "optimizers")

    def __init__(self, session: Session, group: Group) -> None:
        super().__init__(session, group)
        (optimizer,) = session.optimizers.values()
        _require_fp32(session.model)
        self.trained = [parameter for parameter in session.parameters if parameter.requires_grad]
        given = deepspeed_configuration(session.config, sum(parameter.numel() for parameter in self.trained))
        deepspeed = load_deepspeed(session.device.type)
        try:
            self.engine: Any = deepspeed.initialize(
                model=_Computed(session, self.measured), optimizer=optimizer, config=given, dist_init_required=False
            )[0]
        except (ValueError, TypeError, AssertionError) as error:
            raise ConfigurationError(
                f"DeepSpeed {deepspeed.__version__} does not take `distributed.deepspeed`: {str(error)[:500]}",
                remedy="Correct the key that it names, or take it out.",
                document="configs/distributed.md",
            ) from error
        self.engine.set_gradient_accumulation_boundary(True)
        self.wrapped, session.update = self.engine, ByEngine(self.engine)
        self._update = ExitStack()

    def backward(self, loss: Tensor) -> None:
        """Add the loss's (a scalar) to the gradients; after an update's last pass they are summed over processes."""
        if self.number == 1:
            self._update.enter_context(self.engine.coalesce_grad_reduction())
        self.engine.backward(loss, scale_wrt_gas=False)
        if self.is_last:
            for parameter in self.trained:
                if parameter.grad is None:  # not used in this process
                    parameter.grad = torch.zeros_like(parameter)
            self._update.close()

    def clip(
        self,
        parameters: list[nn.Parameter],  # noqa: ARG002 - the engine has them
        training: TrainingSection,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the full gradient's norm (a scalar), all processes together; the engine clips when it updates."""
        found: Tensor = self.engine.optimizer.scaled_global_norm()
        norm = torch.where(found < 0, torch.nan, found)  # DeepSpeed says -1 of one that is not finite
        return norm, {} if training.clip_norm is None else {"applied_gradient_norm": norm.clamp(max=training.clip_norm)}

    def show_gradients(self) -> None:
        """Put the full gradients back into `.grad`. All processes call it together."""
        from deepspeed.utils import safe_get_full_grad

        for parameter in self.trained:
            parameter.grad = safe_get_full_grad(parameter)

    def follow_weights(self) -> None:
        """Take over weights that were loaded into the model."""
        self.engine.optimizer.refresh_fp32_params()


@dataclass(frozen=True)
class ByEngine:
    """Updates by DeepSpeed's engine: it clips, updates this process's part, and gathers the full weights."""

    engine: Any

    def begin(self) -> None:
        """Do nothing."""

    def apply(self, loss: Tensor, again: Again) -> None:  # noqa: ARG002 - the form of all updates
        """Update; the engine has had the `loss` (a scalar)."""
        self.engine.step()


class _Computed(nn.Module):
    """Model and objective in the run's precision: DeepSpeed switches an autocast around its engine off."""

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
