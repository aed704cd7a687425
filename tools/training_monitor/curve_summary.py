"""Summary of a run's curves in numbers: where each goes, how fast, how noisy, and where its best value was."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from trainwright.tools.training_monitor.record import STEP_LOSS, TRAIN_LOSS, VALIDATION_LOSS, RunRecord
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.run import Goal
from trainwright.trainer.run.conditions import Sample

Trend = Literal["better", "worse", "flat", "noisy", "diverging"]
RECENT = 10
"""Trend, slope and noise are of so many last points; a curve of steps has at most STEP_BUCKETS points."""
STEP_BUCKETS = 100
MIN_POINTS = 3
"""A line through two points has no error."""
CERTAIN = 2.0
"""A slope of so many standard errors is a trend."""
STILL = 0.01
"""Without a trend, points that scatter by less than this share of their level are flat, others noisy."""
NEIGHBOURS = 4
"""A spike is measured against so many points before it and as many after it."""
SPIKE_DEVIATIONS = 8.0
DIVERGED = 10.0
"""A loss of so many times its first value diverges, however noisy it is."""
MIN_SPIKE = 0.1
"""A spike is also at least so much of its neighbours' level above them."""


class CurveSummary(Frozen):
    """One curve in numbers."""

    curve: str
    """The recorded key."""
    last: float | None
    best: float | None
    best_epoch: int | None = None
    """None for a curve of steps."""
    steps_since_best: int | None = None
    trend: Trend | None = None
    """Of the last ten points; noisy: no direction shows above the noise; diverging: of a loss that is not finite, or
    ten times where it began. None: fewer than three points."""
    slope: float | None = None
    """Least-squares change per epoch over the same points (per step before the first epoch has ended)."""
    slope_error: float | None = None
    """Its standard error."""
    noise: float | None = None
    """Standard deviation of the points around that line."""
    spikes: int = 0
    """Points far above (of a score: below) both neighbourhoods."""


class Line(NamedTuple):
    """A least-squares line: its slope, the slope's standard error, and the deviation of the points around it."""

    slope: float
    error: float
    noise: float


def curve_summaries(record: RunRecord, goal: Goal | None = None) -> list[CurveSummary]:
    """Return the training loss, the validation loss, and the metrics of selection and goal, where recorded."""
    selection = record.config.selection
    signs = {VALIDATION_LOSS: -1}
    signs[f"validation/{selection.metric}"] = 1 if selection.direction == "maximize" else -1
    if goal is not None:
        signs[f"validation/{goal.metric}"] = 1 if goal.direction == "maximize" else -1
    epochs = record.by_epoch(TRAIN_LOSS)
    use_epochs = len(epochs) >= MIN_POINTS
    samples = (
        epochs if use_epochs else [Sample(step, mean) for step, mean, _, _ in record.buckets(STEP_LOSS, STEP_BUCKETS)]
    )
    found = [_summary(record, TRAIN_LOSS if use_epochs else STEP_LOSS, samples, -1)]
    found += [_summary(record, key, record.by_epoch(key), sign) for key, sign in signs.items()]
    return [summary for summary in found if summary is not None]


def fitted_line(places: Sequence[float], values: Sequence[float]) -> Line | None:
    """Return the least-squares line; None through fewer than three points, or places that do not advance."""
    if len(values) < MIN_POINTS or len(set(places)) < MIN_POINTS:
        return None
    try:
        slope, intercept = statistics.linear_regression(places, values)
        residuals = [value - slope * place - intercept for place, value in zip(places, values, strict=True)]
        middle = statistics.fmean(places)
        noise = math.sqrt(math.fsum(one * one for one in residuals) / (len(values) - 2))
        error = noise / math.sqrt(math.fsum((place - middle) ** 2 for place in places))
    except (statistics.StatisticsError, OverflowError):
        return None
    return Line(slope, error, noise) if math.isfinite(slope) and math.isfinite(error) else None


def spikes(values: Sequence[float], sign: int) -> int:
    """Count the points that are far worse than the points before and after them.

    Against the median of each side by its median absolute deviation, so that neither a falling curve nor a step to
    another level counts, and a spike does not hide its neighbour.
    """
    found = 0
    for place in range(NEIGHBOURS, len(values) - NEIGHBOURS):
        sides = values[place - NEIGHBOURS : place], values[place + 1 : place + 1 + NEIGHBOURS]
        found += all(_is_far_worse(values[place], side, sign) for side in sides)
    return found


def _is_far_worse(value: float, side: Sequence[float], sign: int) -> bool:
    middle = statistics.median(side)
    deviation = statistics.median(abs(one - middle) for one in side)
    excess = -sign * (value - middle)
    return excess > max(SPIKE_DEVIATIONS * deviation, MIN_SPIKE * abs(middle), 1e-12)


def _summary(record: RunRecord, key: str, samples: list[Sample], sign: int) -> CurveSummary | None:
    finite = [sample for sample in samples if math.isfinite(sample.value)]
    if not finite:
        return None
    best = max(finite, key=lambda sample: sign * sample.value)
    recent = finite[-RECENT:]
    line = fitted_line(_places(record, recent), [sample.value for sample in recent])
    return CurveSummary(
        curve=key,
        last=samples[-1].value if math.isfinite(samples[-1].value) else None,
        best=best.value,
        best_epoch=best.epoch,
        steps_since_best=max(0, record.status.step - best.step) if record.status.step else None,
        trend="diverging" if sign < 0 and _diverges(record, samples) else _trend(line, recent, sign),
        slope=line.slope if line else None,
        slope_error=line.error if line else None,
        noise=line.noise if line else None,
        spikes=spikes([sample.value for sample in finite], sign),
    )


def _places(record: RunRecord, samples: list[Sample]) -> list[float]:
    """Return where the samples lie, in epochs; in steps before an epoch has ended."""
    if samples and samples[0].epoch is not None:
        return [float(sample.epoch or 0) for sample in samples]
    ends = record.epoch_at
    steps_per_epoch = max(ends) / ends[max(ends)] if ends and ends[max(ends)] else 1.0
    return [sample.step / steps_per_epoch for sample in samples]


def _diverges(record: RunRecord, samples: list[Sample]) -> bool:
    """Whether a loss ends without a finite value, or far above where training began."""
    last, first = samples[-1].value, first_loss(record)
    return not math.isfinite(last) or (first is not None and last > DIVERGED * abs(first))


def first_loss(record: RunRecord) -> float | None:
    """Return the loss of the first step, before any update; of the first epoch where no steps are recorded."""
    points = record.metrics.head(STEP_LOSS, 1) or record.metrics.head(TRAIN_LOSS, 1)
    return points[0].value if points and math.isfinite(points[0].value) else None


def _trend(line: Line | None, samples: list[Sample], sign: int) -> Trend | None:
    if line is None:
        return None
    if abs(line.slope) > CERTAIN * line.error:
        return "better" if sign * line.slope > 0 else "worse"
    level = statistics.fmean(abs(sample.value) for sample in samples)
    return "flat" if line.noise <= STILL * level else "noisy"
