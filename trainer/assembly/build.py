"""Building the work of a configuration: built-in names, entries, or one task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainwright.trainer.assembly.data import build_data, build_task, user_metric
from trainwright.trainer.assembly.dry_run import explained_build
from trainwright.trainer.assembly.model import build_model, files_of_model, place_of_vocabulary
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import Entry
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.first_look import FirstLook
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.losses import built_in_loss
from trainwright.trainer.losses.fit import measured_on_train
from trainwright.trainer.losses.loss import Loss
from trainwright.trainer.metrics import BUILT_IN as BUILT_IN_METRICS
from trainwright.trainer.metrics import Metric, require_own_names
from trainwright.trainer.objectives.objective import Work
from trainwright.trainer.objectives.supervised import measure_targets
from trainwright.trainer.user_code.context import Context
from trainwright.trainer.user_code.entries import call_entry, is_entry, resolve_entry
from trainwright.trainer.user_code.guard import user_code


def build_work(config: TrainingConfig, code_root: Path, context: Context, looks: FirstLook | None = None) -> Work:
    """Import and build everything the configuration names; `looks` keeps what was found in large files.

    Raises:
        ConfigurationError, UserCodeError, DataError: as the part that is wrong deserves.
    """
    loss = build_loss(config, code_root)
    metrics = [build_metric(metric, code_root) for metric in config.metrics]
    if config.task is not None:
        with explained_build("task"):
            work = build_task(config, code_root, context, loss, metrics)
    else:
        with explained_build("data"):
            splits = build_data(config, code_root, looks)
        with explained_build("model"):
            model = build_model(config, code_root, splits, loss)
        work = Work(model, splits, loss, metrics, config.loader.batch_size, returns=config.returns)
        work.vocabulary_goes = place_of_vocabulary(config, code_root, splits)
        work.model_files = files_of_model(config, code_root)
        splits.files += work.model_files
    if config.target_scaling is not None:
        with user_code("Reading the targets of the train split", code_root):
            work.target_scaling = measure_targets(work.splits.samples["train"], context.data_seed)
    if config.adapter is not None:
        config.adapter.build(work.model)
    if work.loss is not None and work.step is None and work.train_step is None:
        work.loss = _measured(work.loss, work.splits)
    of_task = f"task `{config.task.use}`: `metrics`" if config.task is not None else ""
    places = [f"`metrics.{number}`" if number < len(metrics) else of_task for number in range(len(work.metrics))]
    require_own_names(zip(places, work.metrics, strict=True))
    _check_metrics(work)
    return work


def build_loss(config: TrainingConfig, code_root: Path) -> Loss:
    """Return the loss, built in or the user's own."""
    entry = Entry(use=config.loss) if isinstance(config.loss, str) else config.loss
    if not is_entry(entry.use):
        return built_in_loss(entry.use, entry.args)
    function = resolve_entry(entry.use, code_root, key="loss")
    if isinstance(function, type):
        function = call_entry(function, entry.args, f"loss `{entry.use}`", code_root)
        return Loss(entry.use, function, user_defined=True)
    return Loss(entry.use, _with_arguments(function, entry.args), user_defined=True)


def _measured(loss: Loss, splits: Splits) -> Loss:
    records = splits.records
    labels = [label for record in records.values() for label in record.labels]
    classes = max(len(splits.class_names or ()), max(labels, default=-1) + 1)
    return measured_on_train(loss, splits.samples["train"], records["train"].labels, classes)


def build_metric(metric: str | Entry, code_root: Path) -> Metric:
    """Return a metric, built in or the user's own (marked as such in the evidence)."""
    entry = Entry(use=metric) if isinstance(metric, str) else metric
    if not is_entry(entry.use):
        return BUILT_IN_METRICS[entry.use]
    function = resolve_entry(entry.use, code_root, key="metrics")
    call = call_entry(function, entry.args, f"metric `{entry.use}`", code_root) if isinstance(function, type) else None
    return user_metric(entry.use.rpartition(":")[2], call or _with_arguments(function, entry.args), code_root)


def _check_metrics(work: Work) -> None:
    task = work.task
    for metric in work.metrics:
        if task is not None and metric.tasks and task not in metric.tasks:
            fitting = [name for name, other in BUILT_IN_METRICS.items() if task in other.tasks]
            raise ConfigurationError(
                f"Metric {metric.name} is for {' or '.join(metric.tasks)}, and the loss is for {task}.",
                remedy=f"Use one of {', '.join(fitting)}, or change the loss.",
            )
        if metric.name == "bits_per_byte" and not hasattr(work.splits.samples["train"], "bytes_per_token"):
            raise ConfigurationError(
                "Metric bits_per_byte needs to know the bytes behind each token.",
                remedy="Use perplexity, or data text, whose tokens the engine makes itself.",
            )
        names = work.splits.class_names
        if metric.name == "auc" and not metric.user_defined and names is not None and len(names) != 2:
            raise ConfigurationError(
                f"Metric auc is for two classes; the data has {len(names)}.", remedy="Use accuracy or f1."
            )


def _with_arguments(function: Any, args: Mapping[str, Any]) -> Any:
    from functools import partial

    return partial(function, **args) if args else function
