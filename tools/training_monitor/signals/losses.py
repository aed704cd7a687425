"""Losses as signals: what was learned, what was lost again, and how far validation follows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trainwright.tools.training_monitor.chance_baseline import beside_guessing
from trainwright.tools.training_monitor.record import GRADIENT_NORM, STEP_LOSS, TRAIN_LOSS, VALIDATION_LOSS, RunRecord
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.conditions import NEWEST_STEPS, Sample, loss_remaining

LOSSES_OF_NUMBERS = frozenset({"mse", "mae", "huber", "log_cosh"})
MIN_LEARNED = 0.25
"""Share of the starting loss that counts as learned at least, so that noise about a flat loss loses nothing."""
EARLY_STOPPING, HALF = "early_stopping", 0.5
MOSTLY_LEFT = 0.75
"""Of the variance of a task's target, or of its first loss."""
RAN_AWAY = 10.0
"""Times the starting loss, from which on a loss of the user's own updates has run away too."""
MIN_GAP = 0.02
"""Share of the starting loss that has to be learned before what of it validation misses is a number worth reading."""
NOISE_OF_A_MEAN = 0.3
"""Share of the range of ten values that three standard errors of their mean are."""


def non_finite_losses(record: RunRecord) -> list[Sample]:
    """How many recorded losses are NaN or infinite (one sample, at the first of them)."""
    found = [point.step for key in (STEP_LOSS, TRAIN_LOSS, VALIDATION_LOSS) for point in record.non_finite(key)]
    events = [event for event in record.run.events("alert") if event.data.get("id") == "nan_loss"]
    found += [_step_of(event.data) for event in events if not found]
    failure = record.status.failure
    if not found and failure is not None and failure.category == "divergence":
        found = [_step_of(failure.details) or record.status.step]
    return [Sample(min(found), len(found))] if found else [Sample(record.status.step, 0)]


def loss_gap(record: RunRecord) -> list[Sample]:
    """Per epoch: share of the loss reduction learned in training that validation does not show.

    (validation - train) / (starting loss - train). Scale-free, and small when both losses are tiny beside the start.
    """
    start = record.starting_loss
    if not record.compares_losses:
        return []
    trained = {sample.step: sample.value for sample in record.by_epoch(TRAIN_LOSS)}
    gaps = []
    for sample in record.by_epoch(VALIDATION_LOSS):
        train = trained.get(sample.step, math.nan)
        learned = start - train if start is not None else math.nan
        if start is not None and learned > MIN_GAP * abs(start) and math.isfinite(sample.value):
            gaps.append(sample._replace(value=(sample.value - train) / learned))
    return gaps


def validation_loss_rise(record: RunRecord) -> list[Sample]:
    """Per epoch: how far the validation loss is above its lowest so far, as a share of that lowest."""
    lowest, rises = math.inf, []
    for sample in record.by_epoch(VALIDATION_LOSS) if record.judges_losses else []:
        lowest = min(lowest, sample.value)
        if lowest > 0 and math.isfinite(sample.value):
            rises.append(sample._replace(value=sample.value / lowest - 1))
    return rises


def train_loss_remaining(record: RunRecord) -> list[Sample]:
    """Training loss now ÷ starting loss (1: nothing learned, 0: perfect); per epoch, else of the last steps."""
    if not record.judges_losses:
        return []
    steps = [Sample(point.step, point.value) for point in record.metrics.tail(STEP_LOSS, NEWEST_STEPS)]
    return loss_remaining(record.starting_loss, record.by_epoch(TRAIN_LOSS), steps)


def epochs_without_improvement(record: RunRecord) -> list[Sample]:
    """Epochs since the run's selection metric improved enough for its patience (one sample, at the last epoch)."""
    samples = record.by_epoch(record.selection_key) if record.selection_key else []
    by_loss = record.selection_key in {VALIDATION_LOSS, TRAIN_LOSS}
    has_share = record.judges_losses and (record.starting_loss or 0.0) > 0  # what begins about zero need not fall
    is_judged = has_share if by_loss else not record.is_adversarial
    if record.last_gain is None or record.is_good_enough or not is_judged:
        return []
    last = samples[-1]
    return [last._replace(value=float((last.epoch or 0) - (record.last_gain.epoch or 0)))]


def learned(record: RunRecord) -> list[Sample]:
    """1 where training took half of the loss away, or validation is beyond guessing; else 0 (one sample)."""
    remaining, beside = train_loss_remaining(record), beside_guessing(record)
    has_learned = bool(remaining) and remaining[-1].value <= HALF
    return [Sample(record.status.step, float(has_learned or (beside is not None and not beside.is_no_better)))]


def best_epoch(record: RunRecord) -> list[Sample]:
    """Number of the epoch from which the patience counted that ended a run (one sample); none of another."""
    gain = record.last_gain
    if record.summary.stop_reason != EARLY_STOPPING or gain is None or record.is_good_enough:
        return []
    return [gain._replace(value=float(gain.epoch or 0), detail=_patience(record))]


def loss_fall_since_best(record: RunRecord) -> list[Sample]:
    """Fall of the validation loss from the epoch of `best_epoch` to the last, as a share of it (one sample)."""
    losses, gain = record.by_epoch(VALIDATION_LOSS) if record.judges_losses else [], record.last_gain
    at_gain = next((one.value for one in losses if gain is not None and one.step == gain.step), 0.0)
    return [losses[-1]._replace(value=1 - losses[-1].value / at_gain)] if at_gain > 0 else []


def best_score(record: RunRecord) -> list[Sample]:
    """Best value so far of a selected score in [0, 1] of which more is better (one sample)."""
    selection = record.config.selection
    values = [one.value for one in record.by_epoch(f"validation/{selection.metric}")]
    is_score = selection.direction == "maximize" and bool(values) and all(0 <= value <= 1 for value in values)
    return [record.best] if is_score and record.best is not None else []


def below_earlier(record: RunRecord) -> list[Sample]:
    """Best earlier baseline on the same data, less this run's best, of a score in [0, 1] (one sample)."""
    own, metric = best_score(record), record.config.selection.metric
    is_whole = record.specification.kind != RunKind.SMOKE  # which takes a few steps
    found = [(score, name) for name, score in record.earlier_baselines(metric).items()] if own and is_whole else []
    if not found:
        return []
    score, name = max(found)
    return [own[0]._replace(value=score - own[0].value, detail=f"{metric} {score:.3g} of {name}")]


def _patience(record: RunRecord) -> str:
    return f"early_stopping.patience_epochs {record.config.early_stopping.patience_epochs}"


def recent_improvement(record: RunRecord) -> list[Sample]:
    """Fall of the validation loss over the last three epochs, as a share of the loss before (one sample).

    Only where the run's last epoch is also its best: otherwise it has stopped improving.
    """
    samples = record.by_epoch(VALIDATION_LOSS) if record.judges_losses else []
    if len(samples) < 4 or record.best is None or record.best.step != samples[-1].step or samples[-4].value <= 0:
        return []
    return [samples[-1]._replace(value=1 - samples[-1].value / samples[-4].value)]


def validation_gain(record: RunRecord) -> list[Sample]:
    """Fall of the lowest validation loss so far within the last three epochs, as a share of it (one sample).

    0 where no loss has been lower in them: one epoch that is worse by chance does not end an improvement.
    """
    losses = [sample.value for sample in record.by_epoch(VALIDATION_LOSS) if math.isfinite(sample.value)]
    before, last = losses[: max(len(losses) - 3, 1)], losses[1:][-3:]
    lowest = min(before, default=0.0)
    gain = 1 - min(last) / lowest if last and lowest > 0 else 0.0
    return [Sample(record.status.step, max(gain, 0.0))]


def selection_gain(record: RunRecord) -> list[Sample]:
    """Share of all that the selected score has gained that it gained in its last quarter, of three epochs at least.

    One sample. Not measured of a loss: `validation_gain` is that.
    """
    key, sign = record.selection_key, record.selection_sign
    if key is None or key in {VALIDATION_LOSS, TRAIN_LOSS}:
        return []
    values = [sign * sample.value for sample in record.by_epoch(key) if math.isfinite(sample.value)]
    recent = max(3, len(values) // 4)
    if len(values) <= recent or max(values) <= values[0]:
        return []
    gain = (max(values) - max(values[:-recent])) / (max(values) - values[0])
    return [Sample(record.status.step, gain)]


def loss_rebound(record: RunRecord) -> list[Sample]:
    """Largest share of the learned loss reduction that was lost again later (one sample, where it happened).

    Over means of at least ten steps each, so that one hard batch is no spike, less the noise of such a mean. A loss
    that fell by less than a quarter has learned a quarter.
    """
    last, start = record.metrics.last(STEP_LOSS), record.starting_loss
    count = min(200, last.step // 10) if last else 0
    if count < 5 or start is None or not record.judges_losses:
        return []
    lowest, worst = math.inf, Sample(0, 0.0)
    buckets = record.buckets(STEP_LOSS, count)
    if buckets and buckets[0][2] < 0:  # it begins about zero, as of rewards less their mean, and need not fall
        return []
    for step, mean, low, high in buckets:
        if lowest < start and mean > lowest:
            learned = max(start - lowest, MIN_LEARNED * abs(start))
            lost = mean - lowest - NOISE_OF_A_MEAN * (high - low)
            worst = max(worst, Sample(step, lost / learned), key=lambda sample: sample.value)
        lowest = min(lowest, mean)
    return [worst]


def progress_lost(record: RunRecord) -> list[Sample]:
    """How much of the reduction of the loss is lost where the record ends (one sample); infinite after divergence.

    (loss now - lowest) / what was learned, of the training loss over means of ten steps and of the validation loss; the
    larger of both. Less than half of the starting loss does not count as learned (for validation: less than all of
    it), so that noise around a loss that hardly moved, and plain overfitting, lose nothing.
    """
    if record.non_finite(GRADIENT_NORM) or any(sample.value > 0 for sample in non_finite_losses(record)):
        return [Sample(record.status.step, math.inf)]
    last, start = record.metrics.last(STEP_LOSS), record.starting_loss
    if last is None or start is None or record.is_adversarial:
        return []
    if not record.judges_losses and last.value <= RAN_AWAY * abs(start):  # a critic's loss rises, and does not run away
        return []
    trained = [mean for _, mean, _, _ in record.buckets(STEP_LOSS, min(200, max(1, last.step // 10)))]
    validated = [sample.value for sample in record.by_epoch(VALIDATION_LOSS)]
    lost = [_lost(trained, start, abs(start) / 2), _lost(validated, start, abs(start))]
    return [Sample(last.step, max(lost))]


def _lost(losses: list[float], start: float, least: float) -> float:
    """Share of what was learned that the last of the losses has given back; at least `least` counts as learned."""
    lowest = min([start, *losses])
    reference = max(start - lowest, least)
    return (losses[-1] - lowest) / reference if losses and reference > 0 else 0.0


def steps_done(record: RunRecord) -> list[Sample]:
    """Number of optimizer steps so far (one sample)."""
    ends = [record.metrics.last(key) for key in (STEP_LOSS, TRAIN_LOSS)]
    steps = [end.step for end in ends if end is not None]
    return [Sample(max(steps), float(max(steps)))] if steps else []


def first_loss(record: RunRecord) -> list[Sample]:
    """Loss of the first step, in the units of the loss (one sample)."""
    return [Sample(point.step, point.value) for point in record.metrics.head(STEP_LOSS, 1)]


def numbers_unscaled(record: RunRecord) -> list[Sample]:
    """1 where losses of numbers see the targets in their own units, else 0 (one sample)."""
    losses: list[str | None] = [_name(task.loss) for task in _tasks(record).values()] or [record.loss]
    is_unscaled = all(loss in LOSSES_OF_NUMBERS for loss in losses) and record.config.target_scaling is None
    return [Sample(record.status.step, float(is_unscaled))]


def first_loss_of_a_task(record: RunRecord) -> list[Sample]:
    """First validation loss of the task, of several, that began furthest away and tells hardly more than a mean."""
    found = []
    for name in _tasks(record):
        losses, scores = record.by_epoch(f"validation/{name}_loss"), record.by_epoch(f"validation/{name}_r2")
        remaining = 1 - scores[-1].value if scores else losses[-1].value / losses[0].value if losses else 0.0
        found += [losses[0]._replace(detail=name)] if losses and remaining > MOSTLY_LEFT else []
    return [max(found, key=lambda one: one.value)] if found else []


def _tasks(record: RunRecord) -> Mapping[str, Any]:
    return getattr(record.config.objective, "tasks", {})


def _name(loss: Any) -> str:
    return loss if isinstance(loss, str) else loss.use


def epochs_completed(record: RunRecord) -> list[Sample]:
    """Number of epochs that were trained and recorded (one sample)."""
    samples = record.by_epoch(TRAIN_LOSS) or record.by_epoch(VALIDATION_LOSS)
    return [samples[-1]._replace(value=float(samples[-1].epoch or 0))] if samples else []


def _step_of(data: dict[str, object]) -> int:
    step = data.get("step", 0)
    return step if isinstance(step, int) else 0
