"""Sizes of the updates as signals: the learning rate, weight decay, clipping, and how far the weights move."""

from __future__ import annotations

import math
import statistics

from trainwright.tools.training_monitor.record import APPLIED_NORM, GRADIENT_NORM, LEARNING_RATE, STEP_LOSS, RunRecord
from trainwright.tools.training_monitor.signals.losses import train_loss_remaining
from trainwright.tools.training_monitor.signals.spikes import sudden_gradient, sudden_jump
from trainwright.trainer.run.conditions import FALLEN, LONGEST_WINDOW, NOT_ADAPTIVE, READINGS, Sample
from trainwright.trainer.run.results import Probe

UPDATE_RATIO = READINGS["update_ratio"]
SPENT = 0.01
"""Share of the peak rate below which it moves nothing any more."""
RUN_AWAY = 10.0
"""Times the first loss: from here on it has run away."""
BUCKETS = 200


def peak_update_ratio(record: RunRecord) -> list[Sample]:
    """Largest update ratio of the inspected steps, at the peak of the rate (one sample, where it was).

    A step of a warmup, whose rate is lower, would be larger at the peak in proportion. Steps after the loss ran away
    show what became of the weights, not what the rate does.
    """
    losses = record.metrics.head(STEP_LOSS, LONGEST_WINDOW)
    start = abs(losses[0].value) if losses else math.inf
    gone = next((p.step for p in losses if not abs(p.value) <= RUN_AWAY * start), math.inf)
    found = [sample for sample in _at_the_peak(record) if sample.step < gone]
    return [max(found, key=lambda sample: sample.value)] if found else []


def usual_update_ratio(record: RunRecord) -> list[Sample]:
    """Median of the update ratio over the inspected steps, at the peak of the rate (one sample)."""
    found = _at_the_peak(record)
    return [found[-1]._replace(value=statistics.median(sample.value for sample in found))] if found else []


def update_ratio_before_jump(record: RunRecord) -> list[Sample]:
    """Largest update ratio, at the peak of the rate, of the inspected steps before the loss jumped (one sample)."""
    return _before(record, sudden_jump(record))


def update_ratio_before_gradient(record: RunRecord) -> list[Sample]:
    """Largest update ratio, at the peak of the rate, of the inspected steps before the gradient jumped (one sample)."""
    return _before(record, sudden_gradient(record))


def _before(record: RunRecord, jump: list[Sample]) -> list[Sample]:
    before = [sample for sample in _at_the_peak(record) if jump and sample.step < jump[0].step]
    return [max(before, key=lambda sample: sample.value)] if before else []


def rate_on_curve(record: RunRecord) -> list[Sample]:
    """Configured rate ÷ the rate at the minimum of a probe's range test (one sample; Smith 2017, arXiv:1506.01186)."""
    found, held = record.part(Probe).learning_rate, record.config.optimizer.rate()
    if found.suggested is None or not found.at_minimum or held is None:
        return []
    return [Sample(0, held[1] / found.at_minimum)]


def _at_the_peak(record: RunRecord) -> list[Sample]:
    read = record.metrics.tail(UPDATE_RATIO, LONGEST_WINDOW)
    ratios = [Sample(point.step, point.value) for point in read if math.isfinite(point.value)]
    if not ratios:
        return []
    peak = max([*(bucket[-1] for bucket in record.buckets(LEARNING_RATE, BUCKETS)), planned_rate(record) or 0.0])
    rates = [point.value if (point := record.metrics.at(LEARNING_RATE, sample.step)) else 0.0 for sample in ratios]
    return [
        sample._replace(value=sample.value * peak / rate)
        for sample, rate in zip(ratios, rates, strict=True)
        if rate > SPENT * peak
    ]


def planned_rate(record: RunRecord) -> float | None:
    """Return the highest rate of the parameter groups that the run plans; None where the user's code knows it."""
    rates = [group.get("learning_rate") for group in record.resolved.parameter_groups]
    known = [float(rate) for rate in rates if isinstance(rate, int | float)]
    return max(known) if known else None


def rate_spent_share(record: RunRecord) -> list[Sample]:
    """Share of the steps so far in which the rate had fallen below a hundredth of its peak (one sample)."""
    buckets = record.buckets(LEARNING_RATE, BUCKETS)
    peak = max((highest for _, _, _, highest in buckets), default=0.0)
    if peak <= 0:
        return []
    at_peak = next(place for place, bucket in enumerate(buckets) if bucket[3] == peak)
    spent = [step for step, rate, _, _ in buckets[at_peak:] if rate < SPENT * peak]
    return [Sample(spent[0] if spent else buckets[-1][0], len(spent) / len(buckets))]


def decay_per_step(record: RunRecord) -> list[Sample]:
    """Share of a weight that weight decay takes away in one step at the peak rate: their product (one sample)."""
    products = [
        group["learning_rate"] * group["weight_decay"]
        for group in record.resolved.parameter_groups
        if isinstance(group.get("learning_rate"), int | float) and isinstance(group.get("weight_decay"), int | float)
    ]
    return [Sample(record.status.step, max(products))] if products else []


def unclipped(record: RunRecord) -> list[Sample]:
    """1 where nothing bounds a step's gradient, otherwise 0 (one sample)."""
    training = record.config.training
    return [Sample(record.status.step, float(training.clip_norm is None and training.clip_value is None))]


def clipped_to(record: RunRecord) -> list[Sample]:
    """Share of the gradient's norm that clipping left, the median of the last steps (one sample).

    Only of optimizers whose steps are as long as the gradient.
    """
    if record.config.optimizer.name not in NOT_ADAPTIVE:
        return []
    applied = {point.step: point.value for point in record.metrics.tail(APPLIED_NORM, BUCKETS)}
    whole = record.metrics.tail(GRADIENT_NORM, BUCKETS)
    left = [applied[p.step] / p.value for p in whole if p.step in applied and math.isfinite(p.value) and p.value > 0]
    return [Sample(whole[-1].step, statistics.median(left))] if left else []


def scale_is_harmless(record: RunRecord) -> list[Sample]:
    """1 where a large gradient is a matter of units: the loss fell, or the optimizer divides it out; else 0."""
    remaining = train_loss_remaining(record)
    fell = bool(remaining) and remaining[-1].value <= FALLEN
    return [Sample(record.status.step, float(fell or record.config.optimizer.name not in NOT_ADAPTIVE))]


def effective_batch(record: RunRecord) -> list[Sample]:
    """Samples of one update (one sample)."""
    resolved = record.resolved
    if resolved.batch_size is None:
        return []
    return [Sample(record.status.step, float(resolved.batch_size * (resolved.accumulation_steps or 1)))]


def weight_decay(record: RunRecord) -> list[Sample]:
    """Highest weight decay of a parameter group (one sample)."""
    decays = [group.get("weight_decay") for group in record.resolved.parameter_groups]
    known = [float(decay) for decay in decays if isinstance(decay, int | float)]
    return [Sample(record.status.step, max(known))] if known else []


def dropout(record: RunRecord) -> list[Sample]:
    """Highest dropout among the model's arguments (one sample)."""
    entry = record.config.model
    found = [v for k, v in (entry.args if entry is not None else {}).items() if "dropout" in k and _is_number(v)]
    return [Sample(record.status.step, float(max(found)))] if found else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
