"""The values of a run's metrics over one split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainwright.trainer.errors import ConfigurationError, TrainwrightError, UserCodeError
from trainwright.trainer.metrics.built_in import Metric
from trainwright.trainer.metrics.names import require_free


def evaluate(metrics: Sequence[Metric], outputs: Any, targets: Any, *, task: str | None = None) -> dict[str, float]:
    """Return the value of every metric; a user's metric may return several by name.

    Under `task` "classification", targets that are probabilities per class count for built-in metrics as the likeliest.

    Raises:
        UserCodeError: a user's metric raised or returned no number.
        ConfigurationError: it returned a name that is taken, or outputs and targets do not fit a metric.
    """
    values: dict[str, float] = {}
    soft = task == "classification" and targets.shape == outputs.shape and targets.is_floating_point()
    for metric in metrics:
        if metric.of_loss is not None:
            continue
        result = _computed(metric, outputs, targets.argmax(1) if soft and not metric.user_defined else targets)
        parts = result if isinstance(result, Mapping) else {metric.name: result}
        for name, value in parts.items():
            require_free(str(name), metric, values)
            values[str(name)] = _number(metric, name, value)
    return values


def evaluate_loss(metrics: Sequence[Metric], mean_loss: float, samples: Any) -> dict[str, float]:
    """Return the value of every metric that follows from the mean loss over `samples`."""
    bytes_per_target = float(getattr(samples, "bytes_per_token", 1.0))
    return {m.name: m.of_loss(mean_loss, bytes_per_target) for m in metrics if m.of_loss is not None}


def _computed(metric: Metric, outputs: Any, targets: Any) -> Any:
    try:
        return metric.compute(outputs, targets)
    except TrainwrightError:
        raise
    except Exception as error:
        from trainwright.trainer.failures import known_failure

        if (known := known_failure(error)) is not None:
            raise known from error
        shapes = f"outputs {tuple(outputs.shape)}, targets {tuple(targets.shape)}"
        raise ConfigurationError(
            f"Metric {metric.name} cannot be computed of {shapes}: {str(error)[:200]}",
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
