"""Layers behind a signal of the whole run: those whose recorded values are furthest on the side of the alert."""

from __future__ import annotations

import math

from trainwright.trainer.run.conditions import Condition
from trainwright.trainer.run.metrics import MetricStore

MEASURES = {
    "gradient_norm": "gradient_norm",
    "applied_gradient_norm": "gradient_norm",
    "update_ratio": "update_ratio",
    "dead_share": "dead_share",
    "saturated_share": "saturated_share",
    "activation_max": "activation_max",
}
"""Signal to what is recorded of each layer for it: `layers/<measure>/<name>`."""
MAX_NAMED = 10
NEAR = 10.0
"""Layers within so many times of the furthest are named too."""


def values_of_layers(store: MetricStore, measure: str, step: int) -> dict[str, float]:
    """Return the newest recorded value of each layer at a step or before it. Raises IntegrityError."""
    prefix = f"layers/{measure}/"
    with store.reading():
        keys = [key for key in store.keys() if key.startswith(prefix)]  # noqa: SIM118 - no mapping
        points = {key.removeprefix(prefix): store.newest(key, step) for key in keys}
    found = {name: point for name, point in points.items() if point is not None}
    newest = max((point.step for point in found.values()), default=0)
    return {name: point.value for name, point in found.items() if point.step == newest}


def layers_behind(store: MetricStore, condition: Condition, step: int) -> tuple[str, ...]:
    """Return the layers that a condition is about, the furthest past it first; none where layers are not measured."""
    measure = MEASURES.get(condition.signal)
    if measure is None:
        return ()
    rising = condition.comparison in {"above", "at_least"}
    values = values_of_layers(store, measure, step)
    order = {name: math.inf if math.isnan(value) else value for name, value in values.items()}
    names = sorted(order, key=lambda name: -order[name] if rising else order[name])
    if not names:
        return ()
    furthest = order[names[0]]
    near = [n for n in names if (order[n] * NEAR >= furthest if rising else order[n] <= furthest * NEAR)]
    return tuple(near[:MAX_NAMED])
