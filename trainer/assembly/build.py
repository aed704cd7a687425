"""Building the work of a configuration: built-in names, entries, or one task."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from trainwright.trainer.assembly.dry_run import explained_build
from trainwright.trainer.assembly.metrics import build_metric, check_metrics, metrics_of_task, name_of, scaled_metrics
from trainwright.trainer.assembly.model import AS_IT_IS, Building, build_model, files_of_model, place_of_vocabulary
from trainwright.trainer.assembly.target import load_built_in, require_numbers
from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError, UserCodeError, near_matches
from trainwright.trainer.base.section import Entry
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.config.schema import DataSection
from trainwright.trainer.data.assemble import from_loaded, from_user, withhold_test
from trainwright.trainer.data.first_look import FirstLook
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.frameworks.framework import hand_over
from trainwright.trainer.losses import LOSSES, built_in_loss
from trainwright.trainer.losses.fit import measured_on_train
from trainwright.trainer.losses.loss import Loss
from trainwright.trainer.metrics import Metric, require_own_names
from trainwright.trainer.objectives.objective import Work
from trainwright.trainer.objectives.supervised import describe, measure_targets
from trainwright.trainer.optimization.optimizers.own import named_optimizers
from trainwright.trainer.user_code.constructions import remembered
from trainwright.trainer.user_code.context import TASK_DATA_SEED, Arguments, Context
from trainwright.trainer.user_code.entries import (
    call_entry,
    is_entry,
    require_network,
    require_parameters,
    resolve_entry,
    with_arguments,
)
from trainwright.trainer.user_code.guard import user_code


def build_work(
    config: TrainingConfig,
    code_root: Path,
    context: Context,
    looks: FirstLook | None = None,
    *,
    keeps_test: bool = True,
    building: Building = AS_IT_IS,
) -> Work:
    """Import and build everything that the configuration names.

    Args:
        looks: keeps the findings in large files.
        keeps_test: whether the test rows stay. Else they are gone before a model is built; a task's, right after it.

    Raises:
        ConfigurationError, UserCodeError, DataError: as the part that is wrong deserves.
    """
    if config.trainer is not None:
        if building.imagined:
            raise ConfigurationError(
                "What a handed-over trainer takes cannot be computed: its own library builds and runs the model.",
                remedy="Measure it: the summary of start_training(project, kind='smoke') has the peak.",
            )
        return hand_over(config, code_root, keeps_test=keeps_test)
    loss = build_loss(config, code_root)
    metrics = [build_metric(metric, code_root) for metric in config.metrics]
    if config.task is not None:
        with explained_build("task"):
            work = build_task(config, code_root, context, loss, metrics)
            work.model = building.built(work.model)
            if not keeps_test:
                withhold_test(work.splits, is_built_in=False)
    else:
        with explained_build("data"):
            splits = build_data(config, code_root, looks)
            require_numbers(config, splits)
            if not keeps_test and config.data is not None:
                withhold_test(splits, is_built_in=not is_entry(config.data.use))
        with explained_build("model"):
            model = build_model(config, code_root, splits, loss, building)
        work = Work(model, splits, loss, metrics, config.loader.batch_size, returns=config.returns)
        work.vocabulary_goes = place_of_vocabulary(config, code_root, splits)
        work.model_files = files_of_model(config, code_root)
        splits.files += work.model_files
    if config.target_scaling is not None:
        with user_code("Reading the targets of the train split", code_root):
            parts, by = work.splits.samples, config.target_scaling
            work.target_scaling = measure_targets(parts["train"], context.data_seed, by, parts.get("validation"))
    if config.adapter is not None:
        if work.splits.text is not None:
            packed = hasattr(work.splits.samples["train"], "groups")
            config.adapter.require_texts(work.model, work.splits.text.longest, packed=packed)
        with building.model():
            work.model = config.adapter.build(work.model, code_root, imagined=building.imagined)
        adapter_files = config.adapter.files(code_root)
        work.model_files = [*work.model_files, *adapter_files]
        work.splits.files += adapter_files
    if work.loss is not None and work.step is None and work.train_step is None:
        work.loss = _measured(work.loss, work.splits)
    of_task = f"task `{config.task.use}`: `metrics`" if config.task is not None else ""
    places = [f"`metrics.{number}`" if number < len(metrics) else of_task for number in range(len(work.metrics))]
    require_own_names(zip(places, work.metrics, strict=True))
    check_metrics(work)
    work.metrics = scaled_metrics(work.metrics, work.splits)
    return work


def build_loss(config: TrainingConfig, code_root: Path) -> Loss:
    """Return the loss, built in or the user's."""
    entry = Entry(use=config.loss) if isinstance(config.loss, str) else config.loss
    if not is_entry(entry.use):
        return built_in_loss(entry.use, entry.args)
    function = resolve_entry(entry.use, code_root, key="loss")
    if isinstance(function, type):
        function = call_entry(function, entry.args, f"loss `{entry.use}`", code_root)
        return user_loss(entry.use, function)
    return user_loss(entry.use, with_arguments(function, entry.args))


def user_loss(name: str, function: Any, model: nn.Module | None = None) -> Loss:
    """Wrap the user's loss so that a value that is no mean over the batch is reported by what it is.

    A part of `model` has parameters that are trained, and a network in eval mode has none that should be.

    Raises:
        ConfigurationError: it cannot be called with (output, target), or has parameters that nothing would train.
    """
    require_parameters(function, f"loss `{name}`", "output", "target")
    parts = [part for part in function.modules() if part.training] if isinstance(function, nn.Module) else []
    trained = {id(parameter) for parameter in model.parameters()} if model is not None else set()
    held = [parameter for part in parts for parameter in part.parameters(recurse=False) if parameter.requires_grad]
    if any(id(parameter) not in trained for parameter in held):
        raise ConfigurationError(
            f"loss `{name}` has parameters of its own, which no optimizer of this run holds.",
            remedy="Make the loss a part of the model, whose forward returns it (`returns: loss`), or return it from a "
            "task's `step`. Of constants use register_buffer; a network that only measures is made by .eval() or "
            ".requires_grad_(False).",
        )

    def compute(output: Any, target: Any) -> Tensor:
        value = function(output, target)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise _no_loss(name, value)
        return value.reshape(())

    return Loss(name, compute, user_defined=True)


def _no_loss(name: str, value: Any) -> UserCodeError:
    remedy = "Return the loss itself, one number as a tensor: without .item(), float(), .numpy()."
    if isinstance(value, Tensor):
        remedy = "Return one number for the batch: .mean() at the end, or reduction='mean'."
    elif value is None:
        remedy = "Let the function end with `return loss`."
    elif isinstance(value, Mapping | tuple | list):
        remedy = "Return the loss alone; further values come from a task's `step`, as a dict with the key loss."
    return UserCodeError(f"loss `{name}` returned {describe(value)}; it must be a scalar tensor.", remedy=remedy)


def _measured(loss: Loss, splits: Splits) -> Loss:
    records = splits.records
    labels = [label for record in records.values() for label in record.labels]
    classes = max(len(splits.class_names or ()), max(labels, default=-1) + 1)
    return measured_on_train(loss, splits.samples["train"], records["train"].labels, classes)


def build_data(config: TrainingConfig, code_root: Path, looks: FirstLook | None = None) -> Splits:
    """Load and split the data of `config.data`; `looks` is where first looks at large files are kept.

    Raises:
        ConfigurationError, UserCodeError, DataError: the configuration, the user's code or the data is wrong.
    """
    section = config.data
    assert section is not None, "the schema requires it"  # noqa: S101
    if is_entry(section.use):
        return _own_data(section, code_root)
    found = load_built_in(config, code_root)
    if isinstance(found, Splits):
        return found
    args = {name: value for name, value in section.args.items() if name != "path"}  # its files' contents are known
    return from_loaded(found, section.split, source=section.use, args=args, looks=looks)


def _own_data(section: DataSection, code_root: Path) -> Splits:
    data = call_data(section, code_root)
    with user_code(f"Reading samples of data `{section.use}`", code_root):
        return from_user(data, section.split, source=section.use, seed=section.split.seed)


def call_data(section: DataSection, code_root: Path) -> Any:
    """Return what the user's data callable returns. Raises ConfigurationError, UserCodeError."""
    function = resolve_entry(section.use, code_root, key="data.use")
    with seeding.preserved():  # its draws are part of the data, and the same for every run's seed
        seeding.seed_everything(section.split.seed)
        return call_entry(function, section.args, f"data `{section.use}`", code_root)


KEYS = (
    "model", "train", "validation", "test", "collate", "batch_size", "shuffle", "returns", "loss", "step",
    "train_step", "optimizers", "validation_step", "metrics", "param_groups", "example_input",
)  # fmt: skip


def build_task(config: TrainingConfig, code_root: Path, context: Context, loss: Loss, metrics: list[Metric]) -> Work:
    """Call `build(config, context)` and return its result as work. Raises as `call_task`, and DataError."""
    assert config.task is not None, "called for tasks"  # noqa: S101
    given, arguments = call_task(config, code_root, context)
    with user_code(f"Reading samples of task `{config.task.use}`", code_root):
        collates = given.get("collate") is not None
        splits = from_user(given, None, source=config.task.use, seed=TASK_DATA_SEED, collates=collates)
    return Work(
        model=given["model"],
        splits=splits,
        loss=_loss(given.get("loss"), loss, given["model"]),
        metrics=[*metrics, *metrics_of_task(given.get("metrics"), code_root)],
        batch_size=given.get("batch_size", config.loader.batch_size),
        shuffle=bool(given.get("shuffle", True)),
        collate=given.get("collate"),
        returns=config.returns or given.get("returns"),
        step=given.get("step"),
        train_step=given.get("train_step"),
        validation_step=given.get("validation_step"),
        optimizers=named_optimizers(given.get("optimizers"), "The task"),
        param_groups=_groups(given),
        example_input=given.get("example_input"),
        arguments=arguments,
    )


def call_task(config: TrainingConfig, code_root: Path, context: Context) -> tuple[Mapping[str, Any], Arguments]:
    """Return the checked result of `build(config, context)`, and the arguments that it was called with.

    Raises:
        ConfigurationError: an unknown key, a missing one, or a combination that means nothing.
        UserCodeError: it raised.
    """
    assert config.task is not None, "called for tasks"  # noqa: S101
    what = f"task `{config.task.use}`"
    build = resolve_entry(config.task.use, code_root, key="task.use")
    with user_code(what, code_root), remembered() as keep:
        takes_context = len(inspect.signature(build).parameters) != 1
        arguments = Arguments(copy.deepcopy(config.task.args))
        given = build(arguments, context) if takes_context else build(arguments)
        keep(given.get("model") if isinstance(given, Mapping) else None)
    _check_keys(given, what)
    return given, arguments


def _check_keys(given: Any, what: str) -> None:
    require_network(given, what)
    if not isinstance(given, Mapping):
        raise UserCodeError(
            f"{what} returned a {type(given).__name__}; build(config, context) must return a dict.",
            remedy='Return at least {"model": ..., "train": ...}.',
        )
    for key in given:
        if key not in KEYS:
            raise ConfigurationError(
                f"{what} returned an unknown key {key!r}.{near_matches(str(key), KEYS)}",
                remedy=f"Known keys: {', '.join(KEYS)}.",
            )
    missing = [key for key in ("model", "train") if given.get(key) is None]
    if missing:
        raise ConfigurationError(f"{what} returned no {missing[0]!r}.", remedy="`model` and `train` are required.")
    if given.get("step") is None and given.get("train_step") is None:
        require_network(given["model"], what)
    if not isinstance(given["model"], nn.Module):
        raise ConfigurationError(
            f"{what}: `model` is a {type(given['model']).__name__}; it must be a torch.nn.Module.",
            remedy="Put several networks into one torch.nn.ModuleDict.",
        )
    if (given.get("train_step") is None) != (given.get("optimizers") is None):
        raise ConfigurationError(
            f"{what}: `train_step` and `optimizers` belong together.",
            remedy="train_step(model, batch, context) applies the updates itself with the optimizers that you return.",
        )
    if given.get("step") is not None and given.get("train_step") is not None:
        raise ConfigurationError(
            f"{what}: give `step` or `train_step`, not both.",
            remedy="Remove one of them; beside a train_step, `validation_step` measures validation.",
        )


def _loss(given: Any, configured: Loss, model: nn.Module) -> Loss:
    if given is None:
        return configured
    if isinstance(given, str) and given in LOSSES:
        return built_in_loss(given, {})
    if not callable(given):
        raise ConfigurationError(
            f"The task's `loss` is {given!r}.", remedy=f"Return a callable, or one of {', '.join(LOSSES)}."
        )
    return user_loss(name_of(given), given, model)


def _groups(given: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    groups = given.get("param_groups")
    if groups is None:
        return None
    groups = groups(given["model"]) if callable(groups) else groups
    return [dict(group) if isinstance(group, Mapping) else {"params": list(group)} for group in groups]
