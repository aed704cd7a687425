"""Several processes that train one run, and the strategy by which they share it: chosen here by the configuration."""

from __future__ import annotations

import torch
from torch.distributed import fsdp

from trainwright.trainer.base import releases
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.engine.session import Session
from trainwright.trainer.objectives.objective import Work
from trainwright.trainer.strategies.group import present
from trainwright.trainer.strategies.parallel import Shared


def share(session: Session) -> None:
    """Make the session one of the group's that this process has joined; one that is alone keeps its strategy.

    Raises:
        ConfigurationError: the work cannot be shared.
    """
    group = present()
    if group is not None:
        from trainwright.trainer.strategies.parallel import attach

        attach(session, group, _kind(session.config.distributed.strategy))


def divide_model(work: Work, config: TrainingConfig, device: torch.device) -> None:
    """Divide the model among the processes where the configuration says so, before its optimizer is built.

    Raises:
        ConfigurationError: the work, or this release of torch, cannot divide it.
    """
    group = present()
    if group is not None and config.distributed.strategy == "fsdp2":
        require_fsdp2()
        from trainwright.trainer.strategies.sharded import shard

        shard(work, group, device)


def require_fsdp2() -> None:
    """Refuse a release of torch that has no FSDP2, or can only average gradients. Raises ConfigurationError."""
    if not hasattr(getattr(fsdp, "FSDPModule", None), "set_gradient_divide_factor"):
        raise releases.needed("distributed.strategy fsdp2", releases.FSDP2, "Set distributed.strategy ddp")


def _kind(name: str) -> type[Shared]:
    """Return the strategy of a name; each is imported only where it is used."""
    if name == "fsdp2":
        from trainwright.trainer.strategies.sharded import Fsdp2

        return Fsdp2
    if name == "deepspeed":
        from trainwright.trainer.strategies.zero import DeepSpeed

        return DeepSpeed
    from trainwright.trainer.strategies.parallel import Ddp

    return Ddp
