"""Sudden changes of the loss as signals: one bad batch, or a climb over many steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection

from trainwright.tools.training_monitor.record import APPLIED_NORM, GRADIENT_NORM, STEP_LOSS, RunRecord
from trainwright.trainer.run.conditions import LONGEST_WINDOW, Sample

BEFORE = 8
"""Steps before a jump that have to be calm."""
MIN_BEFORE = 2
CALM_GRADIENTS = 4
"""Steps at least whose gradients are known before one counts as sudden."""
ALIKE = 4.0
"""Times that the largest jump may be of the first that counts beside it."""
CALM = 3.0
"""The highest of calm values is at most so many times their median."""


def sudden_non_finite(record: RunRecord) -> list[Sample]:
    """1 where a loss is not finite at once, after calm steps; 0 where it climbed before (one sample at that step)."""
    points = record.metrics.tail(STEP_LOSS, LONGEST_WINDOW)
    bad = next((place for place, point in enumerate(points) if not math.isfinite(point.value)), None)
    if bad is None or bad < MIN_BEFORE:
        return []
    norms = {point.step: point.value for point in record.metrics.tail(GRADIENT_NORM, LONGEST_WINDOW)}
    before = points[max(0, bad - BEFORE) : bad]
    calm = _is_calm([abs(p.value) for p in before]) and _is_calm([norms[p.step] for p in before if p.step in norms])
    return [Sample(points[bad].step, float(calm))]


def sudden_jump(record: RunRecord) -> list[Sample]:
    """Loss of one step ÷ the median of the calm steps before it: the first jump of the run's largest (one sample).

    A median below a tenth of the starting loss counts as that: near zero, any loss is many times the one before. An
    epoch's last batch of few rows is none: one wrong label fills it.
    """
    points, start = record.metrics.tail(STEP_LOSS, LONGEST_WINDOW) if record.judges_losses else [], record.starting_loss
    jumps, few = [], _last_batches_of_few(record)
    for place in range(MIN_BEFORE, len(points)):
        before = [abs(point.value) for point in points[max(0, place - BEFORE) : place]]
        middle = max(statistics.median(before), abs(start or 0.0) / 10)
        now = points[place]
        if math.isfinite(now.value) and middle > 0 and now.step not in few and _is_calm(before):
            jumps.append(Sample(now.step, now.value / middle))
    return _first_of_the_largest(jumps)


def sudden_gradient(record: RunRecord) -> list[Sample]:
    """Applied gradient norm of a step ÷ the median of the calm steps before: the first of the largest (one sample)."""
    clipped = record.metrics.tail(APPLIED_NORM, LONGEST_WINDOW)
    points = clipped or record.metrics.tail(GRADIENT_NORM, LONGEST_WINDOW)
    jumps = []
    for place in range(CALM_GRADIENTS, len(points)):
        before, now = [point.value for point in points[max(0, place - BEFORE) : place]], points[place]
        if math.isfinite(now.value) and min(before) > 0 and _is_calm(before):
            jumps.append(Sample(now.step, now.value / statistics.median(before)))
    return _first_of_the_largest(jumps)


def _last_batches_of_few(record: RunRecord) -> Collection[int]:
    """Return the steps at the ends of epochs, where their batch has less than half as many rows as the others."""
    train, resolved = record.data.splits.get("train"), record.resolved
    rows = (resolved.batch_size or 0) * (resolved.accumulation_steps or 1)
    return record.epoch_at if train is not None and rows and 0 < train.size % rows < rows / 2 else ()


def _first_of_the_largest(jumps: list[Sample]) -> list[Sample]:
    """Return the first that is no much smaller than the largest: what it does to the weights may cause the others."""
    largest = max((one.value for one in jumps), default=0.0)
    return [one for one in jumps if one.value >= largest / ALIKE][:1]


def non_finite_second_step(record: RunRecord) -> list[Sample]:
    """1 where the second step's loss is not finite, after a first one that is (one sample, at that step)."""
    points = record.metrics.head(STEP_LOSS, 2)
    finite = [math.isfinite(point.value) for point in points]
    return [Sample(points[1].step, 1.0)] if finite == [True, False] else []


def overshoot(record: RunRecord) -> list[Sample]:
    """Highest loss of the run ÷ the starting loss, over means of five steps or more (one sample, where it is)."""
    last, start = record.metrics.last(STEP_LOSS), record.starting_loss
    count = min(200, last.step // 5) if last else 0
    first = record.metrics.head(STEP_LOSS, 1)
    if count < 2 or start is None or not record.judges_losses or first[0].value <= 0:
        return []
    highest = max(record.buckets(STEP_LOSS, count), key=lambda bucket: bucket[1])
    return [Sample(highest[0], highest[1] / first[0].value)]


def _is_calm(values: list[float]) -> bool:
    """Whether no value is far above the usual one: of two the lower, for their mean would hide any climb."""
    finite = [value for value in values if math.isfinite(value)]
    return len(finite) == len(values) >= MIN_BEFORE and max(values) <= CALM * statistics.median_low(values)
