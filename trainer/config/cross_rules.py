"""Rules between the sections of a configuration: combinations that are refused, each with its remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.section import ImpossibleError, form_of
from trainwright.trainer.config.distributed import require_divisible
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.losses.built_in import LossSection
from trainwright.trainer.metrics.built_in import BUILT_IN, OF_GROUPS
from trainwright.trainer.objectives.sections import OBJECTIVES
from trainwright.trainer.optimization.weight_averaging import SwaSection
from trainwright.trainer.user_code.entries import is_entry

if TYPE_CHECKING:
    from trainwright.trainer.config.schema import TrainingConfig


def check_combinations(config: TrainingConfig) -> None:
    """Hold the sections of a configuration against each other.

    Raises:
        ValueError: two of them cannot work together; says what to set instead.
    """
    for rule in RULES:
        rule(config)


OF_THE_TRAINER = (
    "model", "adapter", "data", "loss", "target_scaling", "metrics", "task", "returns", "loader", "objective",
    "optimizer", "schedule", "freezing", "weight_averaging", "mixing", "curriculum", "progressive_resizing",
    "training.epochs", "training.precision", "training.gradient_checkpointing", "training.compile",
    "training.channels_last", "training.accumulation_steps", "training.clip_norm", "training.clip_value",
)  # fmt: skip
"""Keys that a handed-over trainer decides itself."""


def without_the_trainers(values: dict[str, Any]) -> dict[str, Any]:
    """Return nested values without those that a handed-over trainer decides itself: a template's, for example."""
    kept = {key: value for key, value in values.items() if key not in OF_THE_TRAINER}
    of_training = {key.partition(".")[2] for key in OF_THE_TRAINER if key.startswith("training.")}
    if isinstance(kept.get("training"), dict):
        kept["training"] = {key: value for key, value in kept["training"].items() if key not in of_training}
    return kept


def _left_to_the_trainer(config: TrainingConfig) -> None:
    if config.trainer is None:
        return
    default = type(config)(trainer=config.trainer) if _is_more(config) else config
    for key in OF_THE_TRAINER:
        section, _, name = key.partition(".")
        found, usual = (getattr(each, section) for each in (config, default))
        if name:
            found, usual = getattr(found, name), getattr(usual, name)
        if found != usual:
            raise ImpossibleError(
                f"`{key}` is decided by the trainer that `{config.trainer.use}` returns: leave it out, and set it "
                "there, or through trainer.args",
                {key: None},
            )
    if config.distributed.processes > 1:
        raise ImpossibleError(
            "a handed-over trainer runs in one process: set distributed.processes 1", {"distributed.processes": 1}
        )


def _is_more(config: TrainingConfig) -> bool:
    """Return whether anything but the trainer is set, so that building the default ends."""
    return bool(config.model_dump(exclude_defaults=True).keys() - {"trainer"})


def _objective_that_fits(config: TrainingConfig) -> None:
    config.objective.check_metrics(config.metrics)


def _schedule_that_the_optimizer_can_follow(config: TrainingConfig) -> None:
    optimizer, schedule = config.optimizer.name, config.schedule
    if config.optimizer.averages and schedule.name != "constant":
        raise ImpossibleError(
            f"optimizer.name {optimizer} takes the place of a decaying rate: set schedule.name constant "
            f"(it is {schedule.name}); the warmup still holds",
            {"schedule.name": "constant"},
            {"optimizer.name": optimizer.removeprefix("schedule_free_")},
        )
    knows = any(hasattr(config.optimizer, key) for key in ("momentum", "betas", "use"))
    if schedule.moves_momentum and not knows:
        raise ImpossibleError(
            f"schedule.momentum_range needs an optimizer with momentum or betas, not {optimizer}",
            {"schedule.momentum_range": None},
            {"optimizer.name": "adamw"},
        )


def _losses_that_can_be_measured_again(config: TrainingConfig) -> None:
    optimizer = config.optimizer.name
    if config.optimizer.needs_closure and config.training.precision == "fp16":
        raise ImpossibleError(
            f"optimizer.name {optimizer} measures the loss several times in an update, and training.precision fp16 "
            "scales it: set training.precision bf16",
            {"training.precision": "bf16"},
            {"optimizer.name": "adamw"},
        )
    if config.optimizer.needs_closure and config.distributed.processes > 1:
        raise ImpossibleError(
            f"optimizer.name {optimizer} measures the loss several times in an update, which processes cannot share: "
            "set distributed.processes 1",
            {"distributed.processes": 1},
            {"optimizer.name": "adamw"},
        )


def _loss_of(config: TrainingConfig) -> type[LossSection] | None:
    """Return the section of the built-in loss; None for a user's loss."""
    return LOSSES.get(config.loss if isinstance(config.loss, str) else config.loss.use)


def _windows_in_time(config: TrainingConfig) -> None:
    """Hold windows to a split by time: at random, a horizon would be seen in the windows of other splits."""
    data = config.data
    if data is None or is_entry(data.use) or not data.args.get("series"):
        return
    if data.split.by != "time":
        raise ImpossibleError(
            f"`data.args.series` needs the column of its times, and data.split.by is {data.split.by}",
            {"data.split": {"by": "time", "time": "COLUMN"}},
        )
    if data.split.drop_copies:
        raise ImpossibleError(
            "`data.split.drop_copies` leaves rows out, and windows of `data.args.series` overlap by nature",
            {"data.split.drop_copies": False},
        )


def _groups_that_are_named(config: TrainingConfig) -> None:
    """Hold metrics of the order within groups to a split that names these."""
    named = [one if isinstance(one, str) else one.use for one in (config.selection.metric, *config.metrics)]
    of_groups = [name for name in named if name in OF_GROUPS]
    split = config.data.split if config.data is not None and not is_entry(config.data.use) else None
    if not of_groups or config.trainer is not None or (split is not None and split.by == "group"):
        return
    if split is None:
        raise ImpossibleError(
            f"metric {of_groups[0]} is of the order of rows within each group, and no column of a table names these: "
            "set data.use csv, jsonl, parquet or sql, and data.split by group",
        )
    raise ImpossibleError(
        f"metric {of_groups[0]} is of the order of rows within each group, of a query, say, and data.split.by is "
        f"{split.by}: name the column of the groups",
        {"data.split": {"by": "group", "group": "COLUMN"}},
    )


def _errors_scaled_by_those_of_a_series(config: TrainingConfig) -> None:
    """Refuse a metric of forecasts where nothing says what a naive forecast is off by."""
    data, tasks = config.data, getattr(config.objective, "tasks", {})
    placed: dict[str, list[Any]] = {f"objective.tasks.{name}.metrics": task.metrics for name, task in tasks.items()}
    if data is None or is_entry(data.use) or not data.args.get("series"):
        placed |= {"metrics": config.metrics}
    for key, metrics in placed.items():
        for name in (one for one, metric in BUILT_IN.items() if metric.of_series and one in metrics):
            others = [one for one in metrics if one not in {name, "mae"}]
            raise ImpossibleError(
                f"metric {name} divides by what the value one season before is off by on the train rows of a series, "
                f"and `{key}` is of no windows of one (data.args.series with a window and a horizon): use mae",
                {key: ["mae", *others]},
            )


def _targets_that_can_be_scaled(config: TrainingConfig) -> None:
    loss = _loss_of(config)
    if config.target_scaling is None:
        return
    if not config.objective.can_scale():
        others = ", ".join(form_of(one) for one in OBJECTIVES if one.scales)
        raise ImpossibleError(
            f"objective.name {config.objective.name} has no single target to scale, nor tasks of numbers alone: take "
            f"target_scaling out (null), or choose one of {others}",
            {"target_scaling": None},
        )
    if loss is not None and loss.task != "regression" and not config.objective.replaces:
        raise ImpossibleError(
            f"target_scaling is for numbers to predict, and loss {loss.name} is for classes: set loss mse, or take "
            "target_scaling out (null)",
            {"loss": "mse"},
            {"target_scaling": None},
        )


def _warmup_that_ends(config: TrainingConfig) -> None:
    warmup, steps = config.schedule.warmup_steps, config.training.max_steps
    if warmup is not None and steps is not None and warmup >= steps:
        raise ImpossibleError(
            f"schedule.warmup_steps {warmup} never ends: training.max_steps is {steps}",
            {"schedule.warmup_steps": steps // 10},
            {"training.max_steps": warmup * 10},
        )


def _compiled_the_same_way_twice(config: TrainingConfig) -> None:
    compiled = config.training.compile
    if compiled is not None and compiled.mode == "max-autotune" and config.reproducibility.deterministic:
        raise ImpossibleError(
            "training.compile.mode max-autotune chooses kernels by their speed at the time, so two runs may "
            "differ: set it to default, or reproducibility.deterministic to false",
            {"reproducibility.deterministic": False},
            {"training.compile.mode": "default"},
        )


def _work_that_processes_can_share(config: TrainingConfig) -> None:
    require_divisible(config)


def _averaging_that_happens_once(config: TrainingConfig) -> None:
    averaging, epochs = config.weight_averaging, config.training.epochs
    if averaging is not None and config.optimizer.averages:
        raise ImpossibleError(
            f"optimizer.name {config.optimizer.name} averages the weights itself: take weight_averaging out (null), "
            "or choose another optimizer, for example adamw",
            {"weight_averaging": None},
            {"optimizer.name": "adamw"},
        )
    if isinstance(averaging, SwaSection) and (averaging.after_epochs or 0) >= epochs:
        raise ImpossibleError(
            f"weight_averaging.after_epochs {averaging.after_epochs} never comes: training.epochs is {epochs}",
            {"weight_averaging.after_epochs": epochs - 1},
            {"training.epochs": (averaging.after_epochs or 0) + 1},
        )


def _mixing_that_the_loss_can_follow(config: TrainingConfig) -> None:
    loss = _loss_of(config)
    if config.mixing is not None and not config.objective.mixes:
        raise ImpossibleError(
            f"objective.name {config.objective.name} does not learn from one target that could be mixed: take mixing "
            f"out (null), or choose one of {', '.join(form_of(one) for one in OBJECTIVES if one.mixes)}",
            {"mixing": None},
            {"objective": None},
        )
    if config.mixing is not None and loss is not None and loss.hard_targets:
        raise ImpossibleError(
            f"loss {loss.name} takes class numbers only, and mixing.name {config.mixing.name} gives shares of two "
            "classes: set loss cross_entropy, or take mixing out (null)",
            {"loss": "cross_entropy"},
            {"mixing": None},
        )
    if config.mixing is not None and config.mixing.cuts and loss is not None and loss.task == "regression":
        raise ImpossibleError(
            f"a rectangle of another image is no share of a number (loss {loss.name}): set mixing.name mixup",
            {"mixing": {"name": "mixup"}},
        )


def _full_before_the_end(config: TrainingConfig) -> None:
    for key in ("curriculum", "progressive_resizing"):
        after = getattr(getattr(config, key), "full_after_epochs", None)
        if after is not None and after > config.training.epochs:
            raise ImpossibleError(
                f"{key}.full_after_epochs {after} never comes: training.epochs is {config.training.epochs}",
                {f"{key}.full_after_epochs": config.training.epochs},
                {"training.epochs": after},
            )


def _unfreezing_happens(config: TrainingConfig) -> None:
    for unfreeze in config.freezing.unfreeze if config.freezing is not None else ():
        if unfreeze.after_epochs >= config.training.epochs:
            raise ImpossibleError(
                f"freezing.unfreeze after_epochs {unfreeze.after_epochs} never comes: training.epochs is "
                f"{config.training.epochs}",
                {"training.epochs": unfreeze.after_epochs + 1},
            )


def _quantised_weights_are_not_trained(config: TrainingConfig) -> None:
    quantised = config.model.args.get("quantize") if config.model is not None else None
    if (
        quantised is not None
        and config.model is not None
        and config.model.use == "transformers"
        and config.adapter is None
    ):
        raise ImpossibleError(
            f"model.args.quantize {quantised} leaves weights that no update can change: add an adapter, which is "
            "trained beside them, or take quantize out",
            {"adapter": {"name": "lora"}},
            {"model.args.quantize": None},
        )


RULES = (
    _left_to_the_trainer,
    _objective_that_fits,
    _schedule_that_the_optimizer_can_follow,
    _losses_that_can_be_measured_again,
    _windows_in_time,
    _groups_that_are_named,
    _errors_scaled_by_those_of_a_series,
    _targets_that_can_be_scaled,
    _warmup_that_ends,
    _compiled_the_same_way_twice,
    _work_that_processes_can_share,
    _averaging_that_happens_once,
    _mixing_that_the_loss_can_follow,
    _full_before_the_end,
    _unfreezing_happens,
    _quantised_weights_are_not_trained,
)
