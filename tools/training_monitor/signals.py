"""Signals that a diagnostic document may watch: each turns a run's record into samples, in order of step.

A signal knows no threshold; the documents do. An empty list means "not measured", never "fine".
Shares are dimensionless: 0.15 is 15 %.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainwright.tools.training_monitor.data_findings import improbable_labels, leaks_found
from trainwright.tools.training_monitor.no_effect import keys_without_effect, unused_keys
from trainwright.tools.training_monitor.record import (
    APPLIED_NORM,
    GRADIENT_NORM,
    STEP_LOSS,
    TRAIN_LOSS,
    VALIDATION_LOSS,
    Sample,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainwright.tools.training_monitor.record import RunRecord

SCORES = frozenset({"accuracy", "balanced_accuracy", "precision", "recall", "f1", "macro_f1", "auc", "top5_accuracy"})
"""Metrics in [0, 1] of which more is better; the run's own selection metric joins them if it is maximized."""

LONGEST_WINDOW = 1_000
"""Signals recorded at every step give at most so many last samples; no document may evaluate more."""


def non_finite_losses(record: RunRecord) -> list[Sample]:
    """How many recorded losses are NaN or infinite (one sample, at the first of them)."""
    found = [point.step for key in (STEP_LOSS, TRAIN_LOSS, VALIDATION_LOSS) for point in record.non_finite(key)]
    events = [event for event in record.run.events("alert") if event.data.get("id") == "nan_loss"]
    found += [_step_of(event.data) for event in events if not found]
    failure = record.status.failure
    if not found and failure is not None and failure.category == "divergence":
        found = [_step_of(failure.details) or record.status.step]
    return [Sample(min(found), len(found))] if found else [Sample(record.status.step, 0)]


def generalisation_gap(record: RunRecord) -> list[Sample]:
    """Per epoch: training minus validation score, both in [0, 1] (the widest); `loss_gap` where there is none."""
    gaps: dict[int, Sample] = {}
    for name in sorted(SCORES | _selected_score(record)):
        trained = {sample.step: sample.value for sample in record.by_epoch(f"train/{name}")}
        for sample in record.by_epoch(f"validation/{name}"):
            train = trained.get(sample.step, math.nan)
            if 0 <= train <= 1 and 0 <= sample.value <= 1:
                known = gaps[sample.step].value if sample.step in gaps else -math.inf
                gaps[sample.step] = sample._replace(value=max(known, train - sample.value))
    return [gaps[step] for step in sorted(gaps)] or loss_gap(record)


def loss_gap(record: RunRecord) -> list[Sample]:
    """Per epoch: share of the loss reduction learned in training that validation does not show.

    (validation - train) / (starting loss - train). Scale-free, and small when both losses are tiny beside the start.
    """
    start = record.starting_loss
    trained = {sample.step: sample.value for sample in record.by_epoch(TRAIN_LOSS)}
    gaps = []
    for sample in record.by_epoch(VALIDATION_LOSS):
        train = trained.get(sample.step, math.nan)
        learned = start - train if start is not None else math.nan
        if learned > 0 and math.isfinite(sample.value):
            gaps.append(sample._replace(value=(sample.value - train) / learned))
    return gaps


def validation_loss_rise(record: RunRecord) -> list[Sample]:
    """Per epoch: how far the validation loss is above its lowest so far, as a share of that lowest."""
    lowest, rises = math.inf, []
    for sample in record.by_epoch(VALIDATION_LOSS):
        lowest = min(lowest, sample.value)
        if lowest > 0 and math.isfinite(sample.value):
            rises.append(sample._replace(value=sample.value / lowest - 1))
    return rises


def gradient_norm(record: RunRecord) -> list[Sample]:
    """Per step: total gradient norm before clipping."""
    return [Sample(point.step, point.value) for point in record.metrics.tail(GRADIENT_NORM, LONGEST_WINDOW)]


def applied_gradient_norm(record: RunRecord) -> list[Sample]:
    """Per step: total gradient norm as it reached the optimizer, after clipping where the run clips."""
    clipped = record.metrics.tail(APPLIED_NORM, LONGEST_WINDOW)
    return [Sample(point.step, point.value) for point in clipped] or gradient_norm(record)


def train_loss_remaining(record: RunRecord) -> list[Sample]:
    """Training loss now ÷ starting loss (1: nothing learned, 0: perfect); per epoch, else of the last steps."""
    samples = record.by_epoch(TRAIN_LOSS)
    if not samples:
        recent = [Sample(point.step, point.value) for point in record.metrics.tail(STEP_LOSS, 5)]
        middle = sorted(recent, key=lambda sample: sample.value)[len(recent) // 2 : len(recent) // 2 + 1]
        samples = [sample._replace(step=recent[-1].step) for sample in middle]
    start = record.starting_loss
    if start is None or start <= 0:
        return []
    return [sample._replace(value=sample.value / start) for sample in samples if math.isfinite(sample.value)]


def gpu_utilisation(record: RunRecord) -> list[Sample]:
    """Readings of GPU utilisation in percent; none on a machine without a GPU or for a run on the CPU."""
    if (record.resolved.device or "").startswith("cpu"):
        return []
    return [Sample(point.step, point.value) for point in record.metrics.tail("system/gpu_percent", LONGEST_WINDOW)]


def data_wait_share(record: RunRecord) -> list[Sample]:
    """Readings of the share of time in which training waited for data."""
    return [Sample(p.step, p.value) for p in record.metrics.tail("throughput/data_wait_fraction", LONGEST_WINDOW)]


def epochs_without_improvement(record: RunRecord) -> list[Sample]:
    """Epochs since the best value of the run's selection metric (one sample, at the last epoch)."""
    samples = record.by_epoch(record.selection_key) if record.selection_key else []
    if not samples or record.best is None:
        return []
    last = samples[-1]
    return [last._replace(value=float((last.epoch or 0) - (record.best.epoch or 0)))]


def recent_improvement(record: RunRecord) -> list[Sample]:
    """Fall of the validation loss over the last three epochs, as a share of the loss before (one sample).

    Only where the run's last epoch is also its best: otherwise it has stopped improving.
    """
    samples = record.by_epoch(VALIDATION_LOSS)
    if len(samples) < 4 or record.best is None or record.best.step != samples[-1].step or samples[-4].value <= 0:
        return []
    return [samples[-1]._replace(value=1 - samples[-1].value / samples[-4].value)]


def loss_rebound(record: RunRecord) -> list[Sample]:
    """Largest share of the learned loss reduction that was lost again later (one sample, where it happened).

    Over means of at least ten steps each, so that one hard batch is no spike.
    """
    last, start = record.metrics.last(STEP_LOSS), record.starting_loss
    count = min(200, last.step // 10) if last else 0
    if count < 5 or start is None:
        return []
    lowest, worst = math.inf, Sample(0, 0.0)
    for step, mean, _, _ in record.buckets(STEP_LOSS, count):
        if lowest < start and mean > lowest:
            worst = max(worst, Sample(step, (mean - lowest) / (start - lowest)), key=lambda sample: sample.value)
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
    if last is None or start is None:
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


def epochs_completed(record: RunRecord) -> list[Sample]:
    """Number of epochs that were trained and recorded (one sample)."""
    samples = record.by_epoch(TRAIN_LOSS) or record.by_epoch(VALIDATION_LOSS)
    return [samples[-1]._replace(value=float(samples[-1].epoch or 0))] if samples else []


def training_ended(record: RunRecord) -> list[Sample]:
    """1 when no process works on the run any more, else 0 (one sample)."""
    return [Sample(record.status.step, float(record.status.state.is_ended))]


def out_of_memory_failures(record: RunRecord) -> list[Sample]:
    """1 when the run failed for want of memory at a step, else 0 (one sample)."""
    return [Sample(record.status.step, float(_lacked_memory(record, while_building=False)))]


def out_of_memory_while_building(record: RunRecord) -> list[Sample]:
    """1 when the run failed for want of memory before any step, while model or data were built, else 0 (one sample)."""
    return [Sample(record.status.step, float(_lacked_memory(record, while_building=True)))]


def _lacked_memory(record: RunRecord, *, while_building: bool) -> bool:
    failure = record.status.failure
    lacked = failure is not None and failure.category == "out_of_memory"
    return lacked and failure is not None and ("building" in failure.details) is while_building


def _selected_score(record: RunRecord) -> set[str]:
    selection = record.config.selection
    return {selection.metric} if selection.direction == "maximize" and selection.metric != "loss" else set()


def _step_of(data: dict[str, object]) -> int:
    step = data.get("step", 0)
    return step if isinstance(step, int) else 0


SIGNALS: dict[str, Callable[[RunRecord], list[Sample]]] = {
    signal.__name__: signal
    for signal in (
        non_finite_losses,
        generalisation_gap,
        loss_gap,
        validation_loss_rise,
        gradient_norm,
        applied_gradient_norm,
        train_loss_remaining,
        gpu_utilisation,
        data_wait_share,
        epochs_without_improvement,
        recent_improvement,
        loss_rebound,
        progress_lost,
        epochs_completed,
        training_ended,
        out_of_memory_failures,
        out_of_memory_while_building,
        unused_keys,
        keys_without_effect,
        leaks_found,
        improbable_labels,
    )
}
"""Every signal by its name."""
