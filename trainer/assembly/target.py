"""Kind of the target: what loss and metrics want together, and whether the data are of it."""

from __future__ import annotations

from pathlib import Path

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import Entry
from trainwright.trainer.config.schema import TrainingConfig
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.metrics import BUILT_IN as BUILT_IN_METRICS

NUMBERS, CLASSES = "regression", "classification"


def load_built_in(config: TrainingConfig, code_root: Path) -> Loaded | Splits:
    """Return the samples of the configuration's built-in source, with targets as loss and metrics want them.

    Raises as `load_source`.
    """
    section = config.data
    assert section is not None, "called where there is one"  # noqa: S101
    return load_source(section.use, section.args, code_root, section.split, wanted_target(config))


def wanted_target(config: TrainingConfig) -> str | None:
    """Return what the loss wants as a target, or where it is the user's own, all metrics: classification, regression.

    None where they leave it open; a loss that is left out says nothing.
    """
    loss = config.loss if isinstance(config.loss, str) else config.loss.use
    if loss in LOSSES and "loss" in config.model_fields_set:
        return LOSSES[loss].task if LOSSES[loss].task in {NUMBERS, CLASSES} else None
    of_metrics = {tasks for tasks in map(_tasks_of, config.metrics) if tasks}
    if of_metrics == {frozenset({NUMBERS})}:
        return NUMBERS
    return CLASSES if of_metrics and all(NUMBERS not in tasks for tasks in of_metrics) else None


def _tasks_of(metric: str | Entry) -> frozenset[str]:
    name = metric if isinstance(metric, str) else metric.use
    return frozenset(BUILT_IN_METRICS[name].tasks) if name in BUILT_IN_METRICS else frozenset()


def require_numbers(config: TrainingConfig, splits: Splits) -> None:
    """Refuse classes as targets of a loss or of metrics for numbers: it would learn their numbering.

    Raises:
        ConfigurationError: with both ways out.
    """
    names = splits.class_names
    if names is None or wanted_target(config) != NUMBERS:
        return
    loss = config.loss if isinstance(config.loss, str) else config.loss.use
    what = f"loss {loss} is" if loss in LOSSES else "the metrics are"
    raise ConfigurationError(
        f"The target is {len(names)} classes ({', '.join(names[:5])}{', …' if len(names) > 5 else ''}), and {what} for "
        "numbers: their numbering would be learned.",
        remedy="If they are classes: loss cross_entropy with metrics like accuracy. If they are numbers: "
        "data.args.task regression.",
        details={"changes": {"loss": "cross_entropy", "metrics": ["accuracy"]}},
    )
