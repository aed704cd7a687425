"""Learning rates and the use of the machine: over runs, and as a probe's finders measured them."""

from __future__ import annotations

from pathlib import Path

from matplotlib.ticker import NullLocator, ScalarFormatter

from trainwright.tools.figures.recorded import nothing_recorded
from trainwright.tools.figures.series import draw_series, mark_moments, steps_text
from trainwright.tools.figures.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    SMALL,
    VERMILION,
    colours,
    label,
    new_figure,
    save,
    style_of,
)
from trainwright.tools.training_monitor.record import LEARNING_RATE, RunRecord
from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.run.results import Probe

GIGABYTE, MEGABYTE = 1e9, 1e6


def learning_rate(records: list[RunRecord], path: Path) -> Path:
    """Draw the learning rate over the steps. Raises NotFoundError where none was recorded."""
    figure, [[panel]] = new_figure(1, 1, 4.4)
    drawn = [
        draw_series(panel, record, LEARNING_RATE, record.name, colour, style=style_of(index), smooth=False)
        for index, (record, colour) in enumerate(zip(records, colours(len(records)), strict=True))
    ]
    if not any(drawn):
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


# Finders' curves of a probe run: the range test of learning rates, and the batch sizes that were tried.


def range_test(records: list[RunRecord], path: Path) -> Path:
    """Draw the loss over the learning rates of a range test, with its suggestion. Raises NotFoundError without one."""
    (record,) = records
    found = record.part(Probe).learning_rate
    if not found.points:
        raise _no_probe(record, "range test of learning rates", "range_test")
    figure, axes = new_figure(1, 1, 4.6)
    panel = axes[0][0]
    rates, losses, smoothed = (list(column) for column in zip(*found.points, strict=True))
    panel.plot(rates, losses, color=SKY, alpha=0.6, linewidth=1.0, label="loss of a step")
    panel.plot(rates, smoothed, color=BLUE, linewidth=1.7, label="smoothed")
    present = record.config.optimizer.learning_rate
    if present is not None:
        panel.axvline(present, color=GREY, linestyle=":", label=f"configured {present:g}")
    if found.suggested is not None:
        panel.axvline(found.suggested, color=VERMILION, linewidth=1.5, label=f"suggested {found.suggested:g}")
    low, high = min(smoothed), max(smoothed[0], losses[0])
    room = max(0.5 * (high - low), 1e-6)
    panel.set_xscale("log")
    label(panel, found.why or "", "learning rate (log scale)", "training loss")
    panel.set_ylim(low - room, high + room)
    return save(figure, f"Learning-rate range test: {record.name} ({len(rates)} steps)", path)


def batch_size(records: list[RunRecord], path: Path) -> Path:
    """Draw throughput and memory of the batch sizes that were tried. Raises NotFoundError without a probe."""
    (record,) = records
    found = record.part(Probe).batch_size
    done = [one for one in found.tried if "samples_per_second" in one]
    if not done:
        raise _no_probe(record, "batch sizes that were tried", "batch_size")
    figure, axes = new_figure(1, 2, 4.4)
    speed, memory = axes[0]
    sizes = [one["batch_size"] for one in done]
    speed.plot(sizes, [one["samples_per_second"] for one in done], "o-", color=BLUE, label="measured")
    peaks = [(one["batch_size"], one["peak_memory_bytes"] / MEGABYTE) for one in done if one.get("peak_memory_bytes")]
    memory.plot([size for size, _ in peaks], [peak for _, peak in peaks], "o-", color=BLUE)
    failed = [one for one in found.tried if "failure" in one]
    for panel in (speed, memory):
        panel.set_xscale("log", base=2)
        if found.suggested is not None:
            panel.axvline(found.suggested, color=VERMILION, label=f"suggested {found.suggested}")
        for one in failed:
            panel.axvline(
                one["batch_size"], color=GREY, linestyle=":", label=f"{one['batch_size']}: {one['failure'][:40]}"
            )
    why = f" ({found.why})" if found.why else ""
    label(speed, f"Throughput{why}", "batch size (log scale)", "samples per second")
    label(memory, "Peak memory", "batch size (log scale)", "MB")
    for panel in (speed, memory):
        panel.set_ylim(0, panel.get_ylim()[1] * 1.08)
        shown = [*sizes, *(one["batch_size"] for one in failed)]
        panel.set_xticks(shown, [str(size) for size in shown], fontsize=SMALL, rotation=45 if len(shown) > 7 else 0)
        panel.xaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))
    return save(figure, f"Batch-size finder: {record.name}", path)


def _no_probe(record: RunRecord, what: str, kind: str) -> NotFoundError:
    run, project = record.run.run_id, record.specification.project
    return NotFoundError(
        f"Run {run} ({record.specification.kind}) has no {what}, which {kind} draws.",
        remedy=f"start_training(project={project!r}, kind='probe') measures them; then plot_metrics with its run_id.",
    )
