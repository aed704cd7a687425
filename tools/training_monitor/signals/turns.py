"""Turns of validation, as signals: a best epoch within the warm-up, training that goes on, a jagged curve."""

from __future__ import annotations

import math
import statistics

from trainwright.tools.training_monitor.record import LEARNING_RATE, TRAIN_LOSS, VALIDATION_LOSS, RunRecord
from trainwright.trainer.run.conditions import Sample

BUCKETS = 200
MIN_AFTER = 5
"""Epochs after a warm-up, before which nothing says that they are all worse."""
MIN_CURVE, MAX_CURVE = 8, 20
"""Epochs at the end of a curve that show how jagged it is."""


def worse_since_warmup(record: RunRecord) -> list[Sample]:
    """How far the best epoch after the warm-up is behind one within it, as a share of that one (one sample).

    Only of a selected value that is to fall, and where at least five epochs follow a rate that rose to its peak.
    """
    peak_step, best = _end_of_warmup(record), record.best
    if record.selection_sign > 0 or not record.judges_losses or peak_step is None or best is None:
        return []
    values = [one for one in record.by_epoch(record.selection_key or "") if math.isfinite(one.value)]
    after = [one.value for one in values if one.step > peak_step]
    if best.step >= peak_step or len(after) < MIN_AFTER or best.value <= 0:
        return []
    return [best._replace(value=min(after) / best.value - 1)]


def _end_of_warmup(record: RunRecord) -> int | None:
    """Return the step at which the rate, which had risen until then, reached its peak; None of one that never rose."""
    rates = record.buckets(LEARNING_RATE, BUCKETS)
    peak = max((bucket[-1] for bucket in rates), default=0.0)
    at_peak = next((place for place, bucket in enumerate(rates) if bucket[-1] == peak), 0)
    return rates[at_peak][0] if at_peak else None


def learning_since_best(record: RunRecord) -> list[Sample]:
    """Fall of the training loss from the best epoch to the last, as a share of it; 0: none, or not known (one sample).

    Where it is large and validation has not improved, the run learns on, and not what holds for other samples.
    """
    trained = {one.step: one.value for one in record.by_epoch(TRAIN_LOSS)} if record.judges_losses else {}
    best = record.best
    then, last = trained.get(best.step if best else -1, 0.0), next(reversed(trained.values()), 0.0)
    fall = 1 - last / then if then > 0 and math.isfinite(last) else 0.0
    return [Sample(record.status.step, max(fall, 0.0))]


def validation_jaggedness(record: RunRecord) -> list[Sample]:
    """How far an epoch's validation loss is from the middle of its neighbours', as a share of the loss (one sample).

    The median over the last epochs, eight at least. The rows are the same each time: it is the weights that jump.
    """
    losses = [one for one in record.by_epoch(VALIDATION_LOSS) if math.isfinite(one.value)][-MAX_CURVE:]
    level = statistics.median(one.value for one in losses) if losses else 0.0
    if len(losses) < MIN_CURVE or level <= 0 or not record.judges_losses:
        return []
    threes = zip(losses, losses[1:], losses[2:], strict=False)
    apart = [abs(here.value - (before.value + then.value) / 2) for before, here, then in threes]
    return [losses[-1]._replace(value=statistics.median(apart) / level)]


def jaggedness_beyond_chance(record: RunRecord) -> list[Sample]:
    """The same in standard errors of a mean of as many losses as there are validation samples (one sample)."""
    split = record.data.splits.get("validation")
    size = split.size if split is not None and split.size else 0
    return [one._replace(value=one.value * math.sqrt(size)) for one in validation_jaggedness(record) if size]
