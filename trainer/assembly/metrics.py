"""Metrics of a run: built in, functions of the user's on outputs, and functions that play episodes with the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from trainwright.trainer.base.errors import ConfigurationError, near_matches
from trainwright.trainer.base.section import Entry, EpisodesEntry
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.text.token_labels import is_iob2
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.metrics import BUILT_IN, Metric
from trainwright.trainer.models.adapters.prompted import Prompted
from trainwright.trainer.objectives.objective import Work
from trainwright.trainer.user_code.entries import (
    call_entry,
    is_entry,
    require_parameters,
    resolve_entry,
    with_arguments,
)
from trainwright.trainer.user_code.guard import user_code


def build_metric(metric: str | Entry, code_root: Path) -> Metric:
    """Return a metric, built in or the user's (marked as such in the evidence)."""
    entry = Entry(use=metric) if isinstance(metric, str) else metric
    if not is_entry(entry.use):
        return BUILT_IN[entry.use]
    function = resolve_entry(entry.use, code_root, key="metrics")
    call = call_entry(function, entry.args, f"metric `{entry.use}`", code_root) if isinstance(function, type) else None
    name, compute = entry.use.rpartition(":")[2], call or with_arguments(function, entry.args)
    episodes = entry.episodes if isinstance(entry, EpisodesEntry) else 0
    return user_metric(name, compute, code_root, episodes=episodes)


def scaled_metrics(metrics: Sequence[Metric], splits: Splits) -> list[Metric]:
    """Return the metrics, those of a series with what a naive forecast is off by on its train rows.

    Raises:
        ConfigurationError: the data are no series, or the naive forecast is never off.
    """
    of_series = next((one.name for one in metrics if one.of_series), None)
    if of_series is None:
        return list(metrics)
    errors = splits.naive_errors
    if not errors or 0.0 in errors:
        why = "the data are no windows of one" if not errors else f"that is 0 for target {errors.index(0.0) + 1}"
        raise ConfigurationError(
            f"Metric {of_series} divides by what the value one season before is off by on a series' train rows, and "
            f"{why}.",
            remedy="Use mae.",
            document="configs/metrics.md",
        )
    return [one.scaled(errors) if one.of_series else one for one in metrics]


def check_metrics(work: Work) -> None:
    """Refuse a metric that says nothing of what the work trains. Raises ConfigurationError."""
    task = work.task
    for metric in work.metrics:
        if not metric.fits(task, None):
            fitting = [name for name, other in BUILT_IN.items() if task in other.tasks]
            losses = [name for name, other in LOSSES.items() if other.task in metric.tasks]
            raise ConfigurationError(
                f"Metric {metric.name} is for {' or '.join(metric.tasks)}, and the loss is for {task}"
                f"{f': {work.loss.name}' if work.loss else ''}.",
                remedy=f"Use one of {', '.join(fitting)}, or change the loss: {', '.join(losses[:4])}.",
            )
        if metric.name == "bits_per_byte" and not hasattr(work.splits.samples["train"], "bytes_per_token"):
            raise ConfigurationError(
                "Metric bits_per_byte needs to know the bytes behind each token.",
                remedy="Use perplexity, or data text, whose tokens the engine makes itself.",
            )
        if metric.of_groups and "validation" not in work.splits.groups:
            raise ConfigurationError(
                f"Metric {metric.name} is of the order of rows within each group, and these data are not divided by "
                "groups of rows of a table.",
                remedy="Use a table (csv, jsonl, parquet, sql) whose column names each row's group, the query, say: "
                'data.split: {"by": "group", "group": "query"}.',
                document="configs/splits.md",
            )
        names = work.splits.class_names
        if metric.name == "entity_f1" and not is_iob2(names):
            raise ConfigurationError(
                f"Metric entity_f1 is of entities, and the classes are none: {', '.join((names or ['none'])[:8])}.",
                remedy="Give data token_classification tags like B-PER, I-PER and O (with data.args.tag_names where "
                "they are numbers), or use accuracy and f1.",
            )
        can_write = hasattr(work.splits.samples["train"], "writing") and hasattr(work.model, "generate")
        if metric.of_texts and not can_write:
            raise _writes_nothing(metric, work.model)
        if names is not None and not metric.fits(task, len(names)):
            wants = metric.classes or f"more than {metric.beyond}"
            raise ConfigurationError(
                f"Metric {metric.name} is for {wants} classes; the data has {len(names)}.",
                remedy="Use accuracy, f1, precision_macro or recall_macro.",
            )


def _writes_nothing(metric: Metric, model: nn.Module) -> ConfigurationError:
    if isinstance(model, Prompted) and hasattr(model.inner.get_base_model(), "generate"):
        return ConfigurationError(
            f"Metric {metric.name} compares texts that a model writes, and behind the learned vectors of `adapter` "
            "none is written here.",
            remedy="Set adapter.name lora or ia3, with which the model writes, or use perplexity.",
        )
    return ConfigurationError(
        f"Metric {metric.name} compares texts that a model writes, and here nothing is written.",
        remedy="Use data seq2seq with a model of the Transformers library, or perplexity.",
    )


def user_metric(name: str, function: Any, code_root: Path, *, episodes: int = 0) -> Metric:
    """Wrap the user's metric so that its failures are reported as the user's.

    Args:
        name: of the metric.
        function: of (outputs, targets); of (program, seed) where it plays episodes.
        code_root: of the user's code.
        episodes: how many it plays; 0: it is of outputs and targets.

    Raises:
        ConfigurationError: it cannot be called so.
    """
    require_parameters(function, f"metric `{name}`", *(("program", "seed") if episodes else ("outputs", "targets")))

    def compute(first: Any, second: Any) -> Any:
        with user_code(f"metric `{name}`", code_root):
            return function(first, second)

    return Metric(name, compute, user_defined=True, episodes=episodes)


def metrics_of_task(given: Any, code_root: Path) -> list[Metric]:
    """Return the metrics that a task gives: names and functions, or functions by name. Raises ConfigurationError."""
    named = given if isinstance(given, Mapping) else {}
    listed = [] if given is None or named else list(given)
    unknown = [metric for metric in listed if isinstance(metric, str) and metric not in BUILT_IN]
    if unknown:
        raise ConfigurationError(
            f"The task's metric {unknown[0]!r} is no built-in name.{near_matches(unknown[0], BUILT_IN)}",
            remedy=f"Built in: {', '.join(BUILT_IN)}; or return {{name: callable}}.",
        )
    return [
        *(BUILT_IN[m] if isinstance(m, str) else user_metric(name_of(m), m, code_root) for m in listed),
        *(user_metric(str(name), function, code_root) for name, function in named.items()),
    ]


def name_of(function: Any) -> str:
    """Return the name of a function, or of a callable's class."""
    return str(getattr(function, "__name__", type(function).__name__))
