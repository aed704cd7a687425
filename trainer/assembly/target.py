"""Kind of the target: what loss and metrics want together, and whether the data are of it."""

from __future__ import annotations

from pathlib import Path

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import Entry
from trainwright.trainer.config.schema import TrainingConfig
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.table.transform import is_number
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.metrics import BUILT_IN as BUILT_IN_METRICS

NUMBERS, CLASSES = "regression", "classification"
OF_NUMBERS = {"loss": "mse", "metrics": ["mae", "r2"], "target_scaling": "standardize"}
"""Changes for numbers to predict."""


def load_built_in(config: TrainingConfig, code_root: Path) -> Loaded | Splits:
    """Return the samples of the configuration's built-in source, with targets as loss and metrics want them.

    Raises:
        ConfigurationError: the data's arguments say another task than these. And as `load_source`.
    """
    section = config.data
    assert section is not None, "called where there is one"  # noqa: S101
    wanted, said = wanted_target(config), section.args.get("task")
    if said is not None and wanted is not None and said != wanted:
        raise _contradiction(config, f"data.args.task is {said}", wanted)
    found = load_source(section.use, section.args, code_root, section.split, wanted)
    if found.target_names is not None:
        _require_loss_of_several(config, found.class_names)
    elif wanted is None and getattr(config.loss, "use", config.loss) not in LOSSES and said is None:
        _require_plain_classes(found.class_names or [])
    return found


def _require_loss_of_several(config: TrainingConfig, labels: list[str] | None) -> None:
    """Refuse a built-in loss of one class for several targets, and one of labels for numbers.

    Raises:
        ConfigurationError: with the loss that fits.
    """
    loss = getattr(config.loss, "use", config.loss)
    wanted = NUMBERS if labels is None else "binary"
    if loss not in LOSSES or LOSSES[loss].task in {wanted, NUMBERS} or type(config.objective).replaces:
        return
    told = "numbers" if labels is None else f"yes or no each ({', '.join(labels[:5])})"
    raise ConfigurationError(
        f"The targets are several, {told}, and loss {loss} is for "
        f"{'labels' if LOSSES[loss].task == 'binary' else 'one class of several'}.",
        remedy=f"Set loss {'mse' if labels is None else 'bce_with_logits'}.",
        document="configs/losses.md",
        details={"changes": OF_NUMBERS if labels is None else {"loss": "bce_with_logits", "metrics": ["f1"]}},
    )


def _require_plain_classes(names: list[str]) -> None:
    """Refuse classes that are numbers, and not those that they are numbered by, where nothing says which is meant."""
    if names and all(map(is_number, names)) and names != [str(place) for place in range(len(names))]:
        raise ConfigurationError(
            f"The target is {', '.join(names[:5])}{', …' * (len(names) > 5)}: nothing says whether these are numbers "
            f"or classes, which your own loss would be given as 0 to {len(names) - 1}.",
            remedy="Say which: data.args.task regression, or classification; or metrics like mae, or like accuracy.",
        )


def wanted_target(config: TrainingConfig) -> str | None:
    """Return what the loss wants as a target, or where it is the user's own, all metrics: classification, regression.

    None where they leave it open; a loss that is left out says nothing.
    """
    loss = getattr(config.loss, "use", config.loss)
    if loss in LOSSES and "loss" in config.model_fields_set:
        return LOSSES[loss].task if LOSSES[loss].task in {NUMBERS, CLASSES} else None
    of_metrics = {tasks for tasks in map(_tasks_of, config.metrics) if tasks}
    if of_metrics == {frozenset({NUMBERS})}:
        return NUMBERS
    return CLASSES if of_metrics and all(NUMBERS not in tasks for tasks in of_metrics) else None


def _tasks_of(metric: str | Entry) -> frozenset[str]:
    name = getattr(metric, "use", metric)
    return frozenset(BUILT_IN_METRICS[name].tasks) if name in BUILT_IN_METRICS else frozenset()


def require_numbers(config: TrainingConfig, splits: Splits) -> None:
    """Refuse classes as targets of a loss or of metrics for numbers: it would learn their numbering.

    Raises:
        ConfigurationError: with both ways out.
    """
    names = splits.class_names
    if names is not None and wanted_target(config) == NUMBERS:
        raise _contradiction(
            config, f"The target is {len(names)} classes ({', '.join(names[:5])}{', …' * (len(names) > 5)})", NUMBERS
        )


def _contradiction(config: TrainingConfig, said: str, wanted: str) -> ConfigurationError:
    loss = getattr(config.loss, "use", config.loss)
    of_loss = f"loss {loss} is" if loss in LOSSES and "loss" in config.model_fields_set else "the metrics are"
    other = {"loss": "cross_entropy", "metrics": ["accuracy"]}
    return ConfigurationError(
        f"{said}, and {of_loss} for {'numbers' if wanted == NUMBERS else 'classes'}.",
        remedy="If the target is classes: loss cross_entropy with metrics like accuracy, and data.args.task "
        "classification or left out. If it is a number: loss mse (mae, huber) with metrics like mae and r2, and "
        "data.args.task regression or left out.",
        details={"changes": other if wanted == NUMBERS else OF_NUMBERS},
    )
