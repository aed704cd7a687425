"""Distributed training: how many processes train one run, and how they share the work (TRAIN-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator

from trainwright.trainer.base.section import ImpossibleError, Section
from trainwright.trainer.config.deepspeed import require_answerable
from trainwright.trainer.optimization.optimizers import OPTIMIZERS

if TYPE_CHECKING:
    from trainwright.trainer.config.schema import TrainingConfig


class DistributedSection(Section):
    """Several processes that make one update together. What is trained stays the same for any number of them.

    `loader.batch_size` is the batch of the whole group: each process takes its share of the rows.
    """

    processes: Annotated[int, Field(ge=1, le=4096)] = 1
    """All processes of the run, over all machines."""
    launcher: Literal["own", "outer"] = "own"
    """own: the run's worker starts all processes on this machine. outer: the run waits for torchrun, accelerate launch
    or a cluster's scheduler to start them."""
    strategy: Literal["ddp", "fsdp2", "deepspeed"] = "ddp"
    """ddp: every process holds the whole model; fsdp2: a part of every parameter and of its optimizer state; deepspeed:
    the whole weights, and a part of the optimizer's state (and of the gradients), by DeepSpeed's engine."""
    deepspeed: dict[str, Any] | None = None
    """DeepSpeed's own configuration, as in its ds_config.json; "auto" is filled in from this one."""
    backend: Literal["auto", "gloo", "nccl"] = "auto"
    """auto: nccl between GPUs, else gloo."""
    batch_norm: Literal["first", "synchronized"] = "first"
    """first: the first process's rows give the statistics that are kept; synchronized: the whole batch's rows do."""
    restarts: Annotated[int, Field(ge=0, le=1000)] = 3
    """How often the group is started again from the last checkpoint after one of its processes was killed."""
    timeout_seconds: Annotated[float, Field(gt=0.0, le=1e6)] = 1800.0
    """Longest that a process waits for the others at one exchange."""

    @field_validator("deepspeed", mode="before")
    @classmethod
    def _content_and_no_path(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("give the content of the file, not its path: it is locked with the configuration")
        return value


def require_divisible(config: TrainingConfig) -> None:
    """Check that the work can be shared as the section says.

    Raises:
        ValueError: says what to set instead.
    """
    section = config.distributed
    if section.processes > config.loader.batch_size:
        raise ImpossibleError(
            f"distributed.processes {section.processes} share each batch, and loader.batch_size is "
            f"{config.loader.batch_size}: set a batch_size of at least {section.processes}",
            {"loader.batch_size": section.processes},
            {"distributed.processes": config.loader.batch_size},
        )
    if section.processes > 1 and config.training.compile is not None:
        raise ImpossibleError(
            "training.compile works with one process: set it to null, or distributed.processes 1",
            {"training.compile": None},
            {"distributed.processes": 1},
        )
    require_answerable(config)
    if section.strategy != "ddp":
        _require_shardable(config)
    if section.backend == "nccl" and config.training.device == "cpu":
        raise ImpossibleError(
            "distributed.backend nccl connects GPUs, and training.device is cpu: set backend gloo or auto",
            {"distributed.backend": "auto"},
            {"training.device": "cuda"},
        )


def _require_shardable(config: TrainingConfig) -> None:
    strategy = config.distributed.strategy
    if not config.optimizer.shardable:
        fitting = ", ".join(name for name, form in OPTIMIZERS.items() if form.shardable)
        raise ImpossibleError(
            f"optimizer.name {config.optimizer.name} needs whole tensors, and distributed.strategy {strategy} divides "
            f"them: set optimizer.name {fitting}, or distributed.strategy ddp",
            {"distributed.strategy": "ddp"},
            {"optimizer.name": "adamw"},
        )
    if config.weight_averaging is not None and strategy == "fsdp2":
        raise ImpossibleError(
            "weight_averaging needs whole weights: take it out (null), or set distributed.strategy ddp",
            {"distributed.strategy": "ddp"},
            {"weight_averaging": None},
        )
    if config.training.precision == "fp16":
        raise ImpossibleError(
            f"distributed.strategy {strategy} scales no loss: set training.precision bf16, or strategy ddp",
            {"distributed.strategy": "ddp"},
            {"training.precision": "bf16"},
        )
    if config.training.channels_last:
        raise ImpossibleError(
            f"distributed.strategy {strategy} divides contiguous tensors: set training.channels_last false",
            {"training.channels_last": False},
            {"distributed.strategy": "ddp"},
        )
    if config.freezing is not None and config.freezing.unfreeze:
        raise ImpossibleError(
            f"freezing.unfreeze changes what is trained on the way, and distributed.strategy {strategy} settles it at "
            "the beginning: set distributed.strategy ddp",
            {"distributed.strategy": "ddp"},
        )
