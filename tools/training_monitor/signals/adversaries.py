"""Two networks against each other as signals: the losses that the user's train_step records under their names."""

from __future__ import annotations

import re
import statistics

from trainwright.tools.training_monitor.record import DISCRIMINATOR, GENERATOR, RunRecord
from trainwright.trainer.run.conditions import Sample

RECENT = 50


def discriminator_loss(record: RunRecord) -> list[Sample]:
    """Median of the discriminator's loss over the last fifty steps (one sample); none where no run has one."""
    return _recent(record, DISCRIMINATOR)


def generator_loss(record: RunRecord) -> list[Sample]:
    """Median of the generator's loss over the last fifty steps (one sample)."""
    return _recent(record, GENERATOR)


def _recent(record: RunRecord, name: re.Pattern[str]) -> list[Sample]:
    key = next((key for key in sorted(record.metrics.keys()) if name.search(key)), None)
    points = record.metrics.tail(key, RECENT) if key is not None else []
    if len(points) < RECENT:
        return []
    return [Sample(points[-1].step, statistics.median(point.value for point in points))]
