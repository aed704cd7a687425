"""Values of a run's metrics over one split, each under one name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError, TrainwrightError, UserCodeError
from trainwright.trainer.metrics.built_in import BUILT_IN, Metric
from trainwright.trainer.metrics.sums import Sums, added, problem_of, sums_of, value_of

MEASURED = (
    "loss", "epoch_loss", "gradient_norm", "applied_gradient_norm", "learning_rate", "robust_loss", "robust_accuracy",
    "linear_probe_accuracy", "neighbour_accuracy", "loss_scale", "update_skipped",
)  # fmt: skip
"""Names under which the engine records values of every run, or of runs with an objective that needs it."""


def require_own_names(placed: Iterable[tuple[str, Metric]]) -> None:
    """Check the metrics of a run; each comes with the key or the place that gave it.

    Raises:
        ConfigurationError: a user's metric has a name that is taken, or two metrics have one name.
    """
    seen: dict[str, str] = {}
    for place, metric in placed:
        if metric.user_defined:
            require_own_name(metric.name, place)
        if (first := seen.get(_same(metric.name))) is not None:
            raise _twice(metric.name, place, first)
        seen[_same(metric.name)] = place


def require_own_name(name: str, place: str) -> None:
    """Refuse a user's metric that is named like a built-in one or like something the engine measures.

    Raises:
        ConfigurationError: names the place, the name and its owner.
    """
    if _same(name) in MEASURED:
        owner = f"`{_same(name)}`, which the engine measures itself"
    elif _same(name) in BUILT_IN:
        owner = f"the built-in metric `{_same(name)}`"
    else:
        return
    raise ConfigurationError(
        f"{place} gives a metric of your own the name {name!r}; that is the name of {owner}.",
        remedy=f"Rename yours, for example to own_{_same(name)}"
        + (f', or use the built-in one: metrics: ["{_same(name)}"].' if _same(name) in BUILT_IN else "."),
    )


def is_taken(name: str) -> bool:
    """Return whether a name is a built-in metric's, or that of something the engine measures."""
    return _same(name) in MEASURED or _same(name) in BUILT_IN


def require_free(name: str, metric: Metric, values: Iterable[str]) -> None:
    """Check a name that a metric returned against the names of the values before it.

    Raises:
        ConfigurationError: it is taken.
    """
    place = f"`metrics`: {metric.name!r}"
    if metric.user_defined:
        require_own_name(name, place)
    if _same(name) in map(_same, values):
        raise _twice(name, place, "another metric")


def require_unmeasured(values: Collection[str]) -> None:
    """Check the names under which a step hands over further numbers: the engine's records are reserved.

    Raises:
        ConfigurationError: a number is named like one that the engine measures.
    """
    for name in MEASURED:
        if name in values:
            raise ConfigurationError(
                f"The step returned {name!r}, which the engine measures itself.",
                remedy=f"Return it under another name, for example own_{name}.",
            )


def _same(name: str) -> str:
    """Names that differ in case or blanks only would be read as one."""
    return name.strip().casefold()


def _twice(name: str, place: str, first: str) -> ConfigurationError:
    return ConfigurationError(
        f"{place} gives a second metric named {name!r}; {first} gives the first.",
        remedy="Remove one of them, or rename it (for one function with two `args`, write two functions that call it).",
    )


def evaluate(
    metrics: Sequence[Metric], outputs: Any, targets: Any, *, task: str | None = None, groups: Any = None
) -> dict[str, float]:
    """Return the value of every metric; a user's metric may return several by name.

    Under `task` "classification", targets that are probabilities per class count for built-in metrics as the likeliest.
    Metrics by groups have a value where `groups` are given: the number of each sample's, (samples,), in numpy.

    Raises:
        UserCodeError: a user's metric raised or returned no number.
        ConfigurationError: it returned a name that is taken, or outputs and targets do not fit a metric.
    """
    values: dict[str, float] = {}
    wanted = _wanted(outputs, targets, task)
    for metric in metrics:
        if not metric.of_outputs or (metric.of_groups and groups is None):
            continue
        given = (targets,) if metric.user_defined else (wanted, groups) if metric.of_groups else (wanted,)
        result = _computed(metric, partial(metric.compute, outputs, *given), outputs, targets)
        parts = result if isinstance(result, Mapping) else {metric.name: result}
        for name, value in parts.items():
            require_free(str(name), metric, values)
            values[str(name)] = _number(metric, name, value)
    return values


def problems(
    metrics: Sequence[Metric], outputs: Any, targets: Any, *, task: str | None, names: Sequence[str] = ()
) -> dict[str, str]:
    """Return why metrics say nothing about these targets, by name; none of a user's, which knows it alone.

    `names` are those of the classes, or labels.
    """
    wanted = _wanted(outputs, targets, task)
    found = {one.name: one.problem(outputs, wanted, names) for one in metrics if one.problem is not None}
    return {name: why for name, why in found.items() if why}


def fold(
    metrics: Sequence[Metric], outputs: Any, targets: Any, *, task: str | None, before: Sums | None = None
) -> Sums | None:
    """Return the sums that stand for outputs and targets (added to those before), or None where metrics need these.

    What does not fit a metric is left for `evaluate`, which says so.
    """
    try:
        found = sums_of(metrics, outputs, _wanted(outputs, targets, task))
        return found if found is None or before is None else added(before, found)
    except (ValueError, IndexError, TypeError):
        return None


def problems_of_sums(metrics: Sequence[Metric], sums: Sums) -> dict[str, str]:
    """Return as `problems`, of what `fold` returned."""
    return {one.name: why for one in metrics if (why := problem_of(one.name, sums))}


def evaluate_sums(metrics: Sequence[Metric], sums: Sums) -> dict[str, float]:
    """Return the value of every metric that does not follow from the loss, of what `fold` returned."""
    of_outputs = [metric for metric in metrics if metric.of_outputs]
    return {one.name: _computed(one, partial(value_of, one.name, sums)) for one in of_outputs}


def _wanted(outputs: Any, targets: Any, task: str | None) -> Any:
    """Return class numbers in place of probabilities per class."""
    soft = task == "classification" and targets.shape == outputs.shape and targets.is_floating_point()
    return targets.argmax(1) if soft else targets


def evaluate_loss(metrics: Sequence[Metric], mean_loss: float, samples: Any) -> dict[str, float]:
    """Return the value of every metric that follows from the mean loss over `samples`."""
    bytes_per_target = float(getattr(samples, "bytes_per_token", 1.0))
    return {m.name: m.of_loss(mean_loss, bytes_per_target) for m in metrics if m.of_loss is not None}


def _computed(metric: Metric, compute: Callable[[], Any], *both: Any) -> Any:
    try:
        return compute()
    except TrainwrightError:
        raise
    except Exception as error:
        from trainwright.trainer.base.failures import known_failure

        if (known := known_failure(error)) is not None:
            raise known from error
        of = " of outputs {}, targets {}".format(*(tuple(each.shape) for each in both)) if both else ""
        raise ConfigurationError(
            f"Metric {metric.name} cannot be computed{of}: {str(error)[:200]}",
            remedy="Leave it out of `metrics`, or name a function of your own that fits these shapes: "
            '"module:callable", called with (outputs, targets).',
        ) from error


def _number(metric: Metric, name: Any, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise UserCodeError(
            f"Metric {metric.name} returned a {type(value).__name__} for {name!r}; it must be one number.",
            remedy="Return a float, or a dict of floats by name.",
        ) from error
