"""Learning rate of one or several runs, and the use of the machine: processors, devices, memory, wait for data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.figures.recorded import nothing_recorded
from trainwright.tools.figures.series import BUCKETS, draw_series, mark_moments, steps_text
from trainwright.tools.figures.style import (
    BLUE,
    GREEN,
    ORANGE,
    VERMILION,
    colours,
    label,
    new_figure,
    save,
    style_of,
)
from trainwright.tools.training_monitor.record import LEARNING_RATE

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.training_monitor.record import RunRecord

GIGABYTE = 1e9


def learning_rate(records: list[RunRecord], path: Path) -> Path:
    """Draw the learning rate over the steps. Raises NotFoundError where none was recorded."""
    figure, axes = new_figure(1, 1, 4.4)
    panel, drawn = axes[0][0], False
    for index, (record, colour) in enumerate(zip(records, colours(len(records)), strict=True)):
        buckets = record.buckets(LEARNING_RATE, BUCKETS)
        panel.plot([b[0] for b in buckets], [b[1] for b in buckets], color=colour, linestyle=style_of(index),
                   label=record.name if buckets else None, marker="o" if len(buckets) == 1 else None)  # fmt: skip
        drawn = drawn or bool(buckets)
    if not drawn:
        raise nothing_recorded(records[0], "learning_rate", "learning rate")
    if len(records) == 1:
        mark_moments(panel, records[0])
        if warmup := records[0].resolved.warmup_steps:
            panel.axvspan(0, warmup, color=GREEN, alpha=0.12, label=f"warmup: {warmup} steps")
    x = steps_text(records[0]) if len(records) == 1 else "optimizer step"
    label(panel, "", x, "learning rate of the first group")
    names = records[0].name if len(records) == 1 else f"{len(records)} runs"
    return save(figure, f"Learning rate of {names}", path)


def utilisation(records: list[RunRecord], path: Path) -> Path:
    """Draw the use of processors and devices, memory, throughput and the wait for data.

    Raises NotFoundError where nothing was measured.
    """
    (record,) = records
    keys = {key for key in record.metrics.keys() if key.startswith(("system/", "throughput/"))}  # noqa: SIM118
    if not keys:
        raise nothing_recorded(record, "utilisation", "measurements of the machine yet")
    figure, axes = new_figure(2, 2)
    busy, memory, speed, wait = axes.flat
    draw_series(busy, record, "system/cpu_percent", "CPU (of all allowed cores), main memory", BLUE)
    draw_series(busy, record, "system/gpu_percent", "GPU (mean of the run's), its memory", VERMILION)
    draw_series(speed, record, "throughput/samples_per_second", None, BLUE)
    draw_series(memory, record, "system/memory_bytes", None, BLUE, scale=1 / GIGABYTE)
    draw_series(memory, record, "system/gpu_memory_bytes", None, VERMILION, scale=1 / GIGABYTE)
    draw_series(wait, record, "throughput/data_wait_fraction", None, ORANGE, scale=100.0)
    x = steps_text(record)
    label(busy, "Busy", "", "percent")
    label(memory, "Memory", "", "GB")
    label(speed, "Throughput", x, "samples per second")
    label(wait, "Wait for data", x, "percent of the time")
    for panel in (busy, wait):
        panel.set_ylim(0, 105)
    for panel in (memory, speed):
        panel.set_ylim(0, panel.get_ylim()[1] * 1.1)
    return save(figure, f"Use of the machine: {record.name} ({record.status.state})", path)
