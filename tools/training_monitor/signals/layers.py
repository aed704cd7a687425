"""Layers as signals: gradients that fade from layer to layer, units that are dead or saturated."""

from __future__ import annotations

import math
import statistics

from trainwright.tools.training_monitor.record import APPLIED_NORM, GRADIENT_NORM, STEP_LOSS, RunRecord
from trainwright.trainer.run.conditions import LONGEST_WINDOW, Sample

GRADIENTS = "layers/gradient_norm/"
SPREAD, INPUT_SCALE = "watch/gradient_spread", "watch/input_scale"
RECENT = 10
"""Inspected steps of which a layer's median is taken."""
MAX_NAMED = 10


def applied_gradient_norm(record: RunRecord) -> list[Sample]:
    """Per step: total gradient norm as it reached the optimizer, after clipping where the run clips."""
    clipped = record.metrics.tail(APPLIED_NORM, LONGEST_WINDOW)
    points = clipped or record.metrics.tail(GRADIENT_NORM, LONGEST_WINDOW)
    return [Sample(point.step, point.value) for point in points]


def first_gradient_norm(record: RunRecord) -> list[Sample]:
    """Total gradient norm of the first step, which no update has changed yet (one sample).

    Not where that step's loss is no number: then so is every gradient, and the inputs or the loss are why.
    """
    if any(math.isnan(point.value) for point in record.metrics.head(STEP_LOSS, 1)):
        return []
    return [Sample(point.step, point.value) for point in record.metrics.head(GRADIENT_NORM, 1)]


def layer_gradient_spread(record: RunRecord) -> list[Sample]:
    """Smallest gradient norm of a module ÷ the largest (one sample), of modules that have a gradient at all.

    The median over the last inspected steps. Modules, not parameters: the bias of attention's keys, or before a batch
    norm, has no gradient by algebra. Named are the parameters with the smallest.
    """
    spreads = [point.value for point in record.metrics.tail(SPREAD, RECENT) if math.isfinite(point.value)]
    if not spreads:
        return []
    medians = {name: value for name, value in _by_layer(record, GRADIENTS).items() if value > 0}
    largest = max(medians.values(), default=0.0)
    smallest = sorted(medians, key=lambda name: medians[name])[:MAX_NAMED]
    named = tuple(name for name in smallest if medians[name] < largest / 1e3)
    return [Sample(record.status.step, statistics.median(spreads), detail=_named(named), layers=named)]


def _by_layer(record: RunRecord, prefix: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for key in (key for key in record.metrics.keys() if key.startswith(prefix)):  # noqa: SIM118 - no mapping
        values = [point.value for point in record.metrics.tail(key, RECENT) if math.isfinite(point.value)]
        found |= {key.removeprefix(prefix): statistics.median(values)} if values else {}
    return found


def _named(layers: tuple[str, ...]) -> str:
    return ", ".join(layers[:3]) + (", …" if len(layers) > 3 else "")


def input_scale(record: RunRecord) -> list[Sample]:
    """Root mean square of the numbers of a usual row that the first layer multiplies, on the first inspected steps."""
    return [Sample(point.step, point.value) for point in record.metrics.head(INPUT_SCALE, RECENT)]
