"""Distributed training: how many processes train one run, and how they share the work (TRAIN-6).

ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054) divides the optimizer's state among the processes in stage 1, the
gradients too in stage 2, and the weights in stage 3. A DeepSpeed option that would change the training, write its own
files, or keep state that our checkpoints do not save is refused here, before a run starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator

from trainwright.trainer.base.section import ImpossibleError, Section
from trainwright.trainer.optimization.optimizers import OPTIMIZERS

if TYPE_CHECKING:
    from trainwright.trainer.config.schema import TrainingConfig


AUTO = "auto"
EXAMPLE = "{zero_optimization: {stage: 2}}"
REDUCE_BUCKET_SIZE = 500_000_000
"""DeepSpeed's default, in entries."""
PASSED = ("communication_data_type", "memory_breakdown", "steps_per_print", "wall_clock_breakdown")
PASSED_OF_ZERO = (
    "allgather_bucket_size", "allgather_partitions", "contiguous_gradients", "ignore_unused_parameters",
    "overlap_comm", "reduce_bucket_size", "reduce_scatter", "round_robin_gradients", "use_multi_rank_bucket_allreduce",
)  # fmt: skip
PRECISIONS = ("amp", "bf16", "fp16", "torch_autocast")
OFFLOADS = ("cpu_offload", "cpu_offload_param", "offload_optimizer", "offload_param")
OPTIMIZER_PARAMS = {name: name for name in ("betas", "eps", "momentum", "nesterov", "weight_decay")} | {
    "lr": "learning_rate"
}
SCHEDULES = {"warmuplr": "constant", "warmupdecaylr": "linear", "warmupcosinelr": "cosine", "onecycle": "one_cycle"}
INSTEAD = {
    "activation_checkpointing": "set training.gradient_checkpointing",
    "autotuning": "call start_tuning",
    "checkpoint": "see the section checkpoints",
    "curriculum_learning": "set curriculum",
    "data_efficiency": "set curriculum",
    "elasticity": "the number of processes must be reproduced",
    "flops_profiler": "start a run of kind probe",
    "csv_monitor": "set logging.tensorboard",
    "tensorboard": "set logging.tensorboard",
    "wandb": "set logging.tensorboard",
}


def require_answerable(config: TrainingConfig) -> None:
    """Check `distributed.deepspeed` against this engine's abilities, and against the rest of the configuration.

    Raises:
        ValueError: names the key, its value, the rule and the remedy.
    """
    given = config.distributed.deepspeed
    if config.distributed.strategy != "deepspeed":
        if given is not None:
            raise ValueError("distributed.deepspeed has a meaning only with distributed.strategy deepspeed: set it")
        return
    if given is None:
        raise ValueError(f"distributed.strategy deepspeed needs distributed.deepspeed, for example {EXAMPLE}")
    _require_ours(config)
    settled = _settled(config)
    for key, value in given.items():
        if key in settled:
            _require_agreement(key, value, *settled[key])
        elif key == "zero_optimization":
            continue
        elif key == "optimizer":
            _check_optimizer(config, value)
        elif key == "scheduler":
            _refuse_scheduler(value)
        elif not (key in PASSED or _is_off(value)):
            _refuse(key, value)
    _check_zero(given.get("zero_optimization"))


def deepspeed_configuration(config: TrainingConfig, parameters: int) -> dict[str, Any]:
    """Return DeepSpeed's configuration: "auto" filled in, without the options that this engine implements itself.

    Args:
        parameters: entries that are trained. No bucket is larger: DeepSpeed allocates the full bucket.
    """
    given = config.distributed.deepspeed or {}
    zero = given.get("zero_optimization") or {}
    passed = {key: zero[key] for key in PASSED_OF_ZERO if zero.get(key, AUTO) != AUTO}
    bucket = min(passed.get("reduce_bucket_size", REDUCE_BUCKET_SIZE), max(parameters, 1))
    return {
        **{key: given[key] for key in PASSED if given.get(key, AUTO) != AUTO},
        **{key: value for key, (value, _) in _settled(config).items()},
        "zero_optimization": {"stage": zero.get("stage"), **passed, "reduce_bucket_size": int(bucket)},
    }


def _settled(config: TrainingConfig) -> dict[str, tuple[Any, str]]:
    """Return the keys whose values follow from the rest of the configuration, with the keys that decide them."""
    batch, accumulated = config.loader.batch_size, config.training.accumulation_steps
    return {
        "train_batch_size": (batch * accumulated, "loader.batch_size * training.accumulation_steps"),
        "train_micro_batch_size_per_gpu": (
            batch // config.distributed.processes,
            "loader.batch_size / distributed.processes",
        ),
        "gradient_accumulation_steps": (accumulated, "training.accumulation_steps"),
        "gradient_clipping": (config.training.clip_norm or 0.0, "training.clip_norm"),
        "gradient_allreduce_op": ("sum", "losses that are weighted by their share of the batch"),
        "zero_allow_untested_optimizer": (True, "the section optimizer"),
    }


def _require_agreement(key: str, value: Any, ours: Any, source: str) -> None:
    if value not in (AUTO, ours):
        raise ValueError(
            f"distributed.deepspeed.{key} {value!r} contradicts {source} ({ours!r}): set it to {AUTO}, or change "
            f"{source}"
        )


def _check_optimizer(config: TrainingConfig, value: Any) -> None:
    """Accept the optimizer that the section `optimizer` names, its parameters "auto" or the same."""
    ours = config.optimizer
    given: dict[str, Any] = value if isinstance(value, dict) else {"type": value}
    params: dict[str, Any] = given["params"] if isinstance(given.get("params"), dict) else {}
    kind = str(given.get("type")).lower()
    if kind == "adam" and params.get("adam_w_mode", True):
        kind = "adamw"  # DeepSpeed's Adam decouples the decay by default
    if kind != ours.name:
        raise ValueError(
            f"distributed.deepspeed.optimizer.type {kind} contradicts optimizer.name ({ours.name}): take it "
            "out, or change optimizer.name"
        )
    for key, param in params.items():
        name = OPTIMIZER_PARAMS.get(key)
        if key in {"adam_w_mode", "torch_adam"} or param == AUTO:
            continue
        if name is None or not hasattr(ours, name):
            _refuse(f"optimizer.params.{key}", param)
        present = getattr(ours, str(name))
        if (tuple(param) if isinstance(param, list) else param) != present:
            raise ValueError(
                f"distributed.deepspeed.optimizer.params.{key} {param!r} contradicts optimizer.{name} ({present!r}): "
                f"set it to {AUTO}, or change optimizer.{name}"
            )


def _refuse_scheduler(value: Any) -> None:
    kind = str(value.get("type", "")) if isinstance(value, dict) else str(value)
    like = SCHEDULES.get(kind.lower())
    raise ValueError(
        f"distributed.deepspeed.scheduler {kind} contradicts the section schedule, which sets the rate of every step: "
        f"take it out{f', and set schedule.name {like}' if like else ''}"
    )


def _check_zero(zero: Any) -> None:
    if not isinstance(zero, dict) or type(zero.get("stage")) is not int or zero["stage"] not in {0, 1, 2, 3}:
        raise ValueError(f"distributed.deepspeed.zero_optimization.stage must be 1 or 2, for example {EXAMPLE}")
    if zero["stage"] == 0:
        raise ValueError(
            "distributed.deepspeed.zero_optimization.stage 0 divides nothing: set distributed.strategy ddp, which "
            "makes the same updates"
        )
    if zero["stage"] == 3:
        raise ValueError(
            "distributed.deepspeed.zero_optimization.stage 3 divides the weights, and checkpoints store them full: "
            "set distributed.strategy fsdp2, which divides as much, or stage 2"
        )
    bucket = zero.get("reduce_bucket_size", AUTO)
    if bucket != AUTO and not (isinstance(bucket, int | float) and bucket >= 1):
        raise ValueError(
            f"distributed.deepspeed.zero_optimization.reduce_bucket_size {bucket!r} is no number of entries: set it to "
            f"{AUTO}"
        )
    for key, value in zero.items():
        is_kept = key in PASSED_OF_ZERO or key in {"stage", "sub_group_size"} or key.startswith("stage3_")
        if not is_kept and not _is_off(value):
            _refuse(f"zero_optimization.{key}", value)


def _is_off(value: Any) -> bool:
    """Return whether a part is switched off, or left to this configuration, which leaves it out."""
    if isinstance(value, dict):
        return value.get("enabled") in (False, AUTO) or value.get("device") == "none"
    return value is None or value is False or value == AUTO


def _refuse(key: str, value: Any) -> None:
    """Refuse a key that no promise of this engine covers."""
    first = key.partition(".")[0]
    last = key.rpartition(".")[2]
    shown = f"distributed.deepspeed.{key} {str(value)[:80]}"
    if first in PRECISIONS:
        raise ValueError(
            f"{shown}: training.precision says how it is computed, over weights in fp32 (bf16 by autocast): set "
            f"training.precision bf16, and {key}.enabled {AUTO}"
        )
    if last in OFFLOADS:
        raise ValueError(
            f"{shown}: no checkpoint stores offloaded state, and its gradients cannot be checked before the update: "
            f"take it out; more distributed.processes, or distributed.strategy fsdp2, hold less in each"
        )
    instead = f", {INSTEAD[first]}" if first in INSTEAD else ""
    raise ValueError(
        f"{shown}: exact resume and the records of a run are not known to hold with it: take it out{instead}"
    )


def _require_ours(config: TrainingConfig) -> None:
    """Check the rest of the configuration against the abilities of DeepSpeed's engine."""
    training, batch, processes = config.training, config.loader.batch_size, config.distributed.processes
    if batch % processes:
        raise ValueError(
            f"loader.batch_size {batch} is shared by distributed.processes {processes}, and DeepSpeed gives each as "
            f"many rows: set loader.batch_size {batch // processes * processes or processes}"
        )
    if training.clip_value is not None:
        raise ValueError("DeepSpeed clips by the norm only: set training.clip_norm in place of training.clip_value")


class DistributedSection(Section):
    """Several processes that make one update together. The training is the same for any number of them.

    `loader.batch_size` is the batch of all processes together: each process takes its share of the rows.
    """

    processes: Annotated[int, Field(ge=1, le=4096)] = 1
    """All processes of the run, over all machines."""
    launcher: Literal["own", "outer"] = "own"
    """own: the run's worker starts all processes on this machine. outer: the run waits for torchrun, accelerate launch
    or a cluster's scheduler to start them."""
    strategy: Literal["ddp", "fsdp2", "deepspeed"] = "ddp"
    """ddp: every process has the full model; fsdp2: a part of every parameter and of its optimizer state; deepspeed:
    the full weights, and a part of the optimizer's state (and of the gradients), by DeepSpeed's engine."""
    deepspeed: dict[str, Any] | None = None
    """DeepSpeed's own configuration, as in its ds_config.json; "auto" is filled in from this one."""
    backend: Literal["auto", "gloo", "nccl"] = "auto"
    """auto: nccl between GPUs, else gloo."""
    batch_norm: Literal["first", "synchronized"] = "first"
    """first: statistics are kept of the first process's rows; synchronized: of all rows of the batch."""
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
        ValueError: gives the remedy.
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
            f"optimizer.name {config.optimizer.name} needs full tensors, and distributed.strategy {strategy} divides "
            f"them: set optimizer.name {fitting}, or distributed.strategy ddp",
            {"distributed.strategy": "ddp"},
            {"optimizer.name": "adamw"},
        )
    if config.weight_averaging is not None and strategy == "fsdp2":
        raise ImpossibleError(
            "weight_averaging needs full weights: take it out (null), or set distributed.strategy ddp",
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
            f"freezing.unfreeze changes the trained weights later, and distributed.strategy {strategy} settles it at "
            "the beginning: set distributed.strategy ddp",
            {"distributed.strategy": "ddp"},
        )
