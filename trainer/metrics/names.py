"""One name, one number: a user's metric may not pass for a built-in one, nor for what the engine measures itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.metrics.built_in import BUILT_IN, Metric

MEASURED = (
    "loss", "epoch_loss", "gradient_norm", "applied_gradient_norm", "learning_rate", "robust_loss", "robust_accuracy",
    "linear_probe_accuracy", "loss_scale", "update_skipped",
)  # fmt: skip
"""What the engine records of every run, or of runs with an objective that asks for it, under these names."""


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
        ConfigurationError: names the place, the name and what has it.
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
    """Check the names under which a step hands over further numbers: the engine's own records stay its own.

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
