"""Fitted rival: what each of them gives, and its scores by the functions that evaluate the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainwright.trainer.clean_room import metrics
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.tensors import known_targets

Array = np.ndarray[Any, Any]
LEAST = 1e-12
"""Probability of a class that the train split lacks."""


class UnfitError(Exception):
    """Why a rival was not fitted, of data of its kind."""


@dataclass(frozen=True)
class Fitted:
    """A rival, fitted on the train split."""

    name: str
    told: str
    """In words, with how it was fed."""
    usual: tuple[str, ...]
    """Metrics beside the configuration's."""
    outputs: Callable[[Any], Array]
    """Of a split's samples, (rows, ...), in the form that a model of these targets gives."""


def targets_of(samples: Any) -> Array:
    """Return the samples' targets, (rows, ...)."""
    found = known_targets(samples)
    return np.asarray((samples.targets if found is None else found).numpy(force=True))


def is_one_class(targets: Array) -> bool:
    """Return whether targets are one class number for each row: (rows,) or (rows, 1)."""
    return targets.dtype.kind in "iub" and targets.size == len(targets)


def logits_of(probabilities: Array, classes: Array, count: int) -> Array:
    """Return logits, (rows, count or more), of the probabilities, (rows, classes), of some of the classes."""
    logits = np.full((len(probabilities), max(count, int(classes.max()) + 1)), np.log(LEAST))
    logits[:, classes.astype(int)] = np.log(np.clip(probabilities, LEAST, 1.0))
    return logits


def scores(
    config: TrainingConfig,
    usual: Sequence[str],
    outputs: Array,
    targets: Array,
    *,
    groups: Array | None = None,
    naive_errors: Sequence[float] = (),
) -> dict[str, float]:
    """Return the metrics of the configuration, and usual ones, of outputs and targets, (rows, ...) each.

    Args:
        config: of the run.
        usual: names of further metrics.
        outputs: of the rival.
        targets: of the rows.
        groups: numbers of the rows' groups, (rows,), where they have any.
        naive_errors: of a series, on its train rows (`Splits.naive_errors`).
    """
    targets = targets.reshape(-1) if is_one_class(targets) else targets
    names = [config.selection.metric, *(one for one in config.metrics if isinstance(one, str)), *usual]
    wanted = [name for name in dict.fromkeys(names) if name in metrics.steps_of(naive_errors)]
    values = {name: _value(name, outputs, targets, groups, naive_errors) for name in wanted}
    return {name: value for name, value in values.items() if value is not None}


def _value(
    name: str, outputs: Array, targets: Array, groups: Array | None, naive_errors: Sequence[float]
) -> float | None:
    """Return a metric; None where it is not of such outputs."""
    try:
        value = metrics.compute(name, outputs, targets, groups, naive_errors)
    except (ValueError, IndexError):
        return None
    return value if np.isfinite(value) else None
