"""Costs as signals: time, devices, memory, and whether the run has ended."""

from __future__ import annotations

import statistics
from itertools import pairwise

from trainwright.tools.training_monitor.record import RunRecord
from trainwright.tools.training_monitor.signals.updates import effective_batch
from trainwright.trainer.run.conditions import LONGEST_WINDOW, Sample


def training_ended(record: RunRecord) -> list[Sample]:
    """1 when no process works on the run any more, else 0 (one sample)."""
    return [Sample(record.status.step, float(record.status.state.is_ended))]


def gpu_utilisation(record: RunRecord) -> list[Sample]:
    """Readings of GPU utilisation in percent; none on a machine without a GPU or for a run on the CPU."""
    if (record.resolved.device or "").startswith("cpu"):
        return []
    return [Sample(point.step, point.value) for point in record.metrics.tail("system/gpu_percent", LONGEST_WINDOW)]


def wait_per_step(record: RunRecord) -> list[Sample]:
    """Seconds for which a step waited for its data, the median of the newest readings (one sample)."""
    waits = {point.step: point.value for point in record.metrics.tail("throughput/data_wait_fraction", LONGEST_WINDOW)}
    rates = [p for p in record.metrics.tail("throughput/samples_per_second", LONGEST_WINDOW) if p.value > 0]
    batch = effective_batch(record)
    seconds = [waits[point.step] * batch[0].value / point.value for point in rates if point.step in waits and batch]
    return [Sample(rates[-1].step, statistics.median(seconds))] if seconds else []


MEMORY = ("system/process_memory_bytes", "system/gpu_memory_allocated_bytes")
QUARTERS = 4
MIN_READINGS = 6
STEADY = 0.5
"""A quarter's growth counts as steady from this share of an even one on: caches that fill slow down instead."""


def memory_growth(record: RunRecord) -> list[Sample]:
    """Share by which the memory of process or device grew steadily over the run (one sample); 0 where it settled.

    Of the medians of the readings' quarters; the greater of both memories.
    """
    grown = [_steady_growth([point.value for point in record.metrics.tail(key, LONGEST_WINDOW)]) for key in MEMORY]
    known = [share for share in grown if share is not None]
    return [Sample(record.status.step, max(known))] if known else []


def _steady_growth(readings: list[float]) -> float | None:
    if len(readings) < MIN_READINGS:
        return None
    ends = [len(readings) * part // QUARTERS for part in range(QUARTERS + 1)]
    levels = [statistics.median(readings[low:high]) for low, high in pairwise(ends)]
    growth = levels[-1] - levels[0]
    even = growth / (QUARTERS - 1)
    steady = growth > 0 and all(after - before >= STEADY * even for before, after in pairwise(levels))
    return growth / levels[0] if steady and levels[0] > 0 else 0.0


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
