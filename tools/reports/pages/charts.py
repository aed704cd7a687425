"""Charts as values for inline SVG: they take the page's colours, in light and dark, and need no script.

Matplotlib's SVG would be fifty times as large, in fixed colours, and its import takes longer than the whole page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainwright.tools.figures.series import moments, smoothed
from trainwright.tools.figures.style import LOG_RATIO, is_drawable
from trainwright.tools.training_monitor.record import (
    GRADIENT_NORM,
    LEARNING_RATE,
    OF_THE_LOSS,
    STEP_LOSS,
    TRAIN_LOSS,
    VALIDATION_LOSS,
    basis_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trainwright.tools.training_monitor.record import RunRecord

WIDTH, HEIGHT = 620.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 8.0, 8.0, 34.0
"""Margins, for the axes' texts."""
BUCKETS = 240
MOST_SERIES = 8
LEAST_SMOOTHED = 24


@dataclass(frozen=True)
class Series:
    """One line: points, and the lowest and highest values behind them."""

    name: str
    points: list[tuple[float, float]]
    band: list[tuple[float, float, float]] = field(default_factory=list)
    """(x, lowest, highest)."""
    dashed: bool = False


@dataclass(frozen=True)
class Mark:
    """A moment, as a line across the chart."""

    x: float
    text: str
    css: str


@dataclass
class Chart:
    """A chart in its own coordinates: what the template writes as SVG."""

    title: str
    x_label: str
    lines: list[tuple[str, str, bool]] = field(default_factory=list)
    """(name, path, whether dashed)."""
    bands: list[tuple[int, str]] = field(default_factory=list)
    """(number of the line, outline)."""
    marks: list[Mark] = field(default_factory=list)
    x_ticks: list[tuple[float, str]] = field(default_factory=list)
    y_ticks: list[tuple[float, str]] = field(default_factory=list)
    is_log: bool = False


def chart(title: str, x_label: str, series: Sequence[Series], marks: Sequence[Mark] = ()) -> Chart | None:
    """Return a chart of some lines; None where none has a point. Logarithmic where a positive value spans far."""
    shown = [one for one in series if one.points][:MOST_SERIES]
    if not shown:
        return None
    xs = [x for one in shown for x, _ in one.points]
    ys = [y for one in shown for _, y in one.points] + [y for one in shown for _, *pair in one.band for y in pair]
    is_log = min(ys) > 0 and max(ys) / min(ys) > LOG_RATIO
    right = max([*xs, *(mark.x for mark in marks)])
    across, up = _scale(0.0, right, LEFT, WIDTH - RIGHT), _rising(min(ys), max(ys), is_log=is_log)
    found = Chart(title, x_label, is_log=is_log)
    for number, one in enumerate(shown):
        if one.band:
            there = [(across(x), up(high)) for x, _, high in one.band]
            back = [(across(x), up(low)) for x, low, _ in reversed(one.band)]
            found.bands.append((number, _path([*there, *back]) + "Z"))
        found.lines.append((one.name, _path([(across(x), up(y)) for x, y in one.points]), one.dashed))
    found.marks = [Mark(across(mark.x), mark.text, mark.css) for mark in marks]
    found.x_ticks = [(across(tick), f"{tick:g}") for tick in _ticks(0.0, right)]
    span = (
        [10.0**power for power in range(math.ceil(math.log10(min(ys))), math.floor(math.log10(max(ys))) + 1)]
        if is_log
        else _ticks(min(ys), max(ys))
    )
    found.y_ticks = [(up(tick), f"{tick:.4g}") for tick in span]
    return found


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    width = high - low or 1.0
    return lambda value: start + (value - low) / width * (end - start)


def _rising(low: float, high: float, *, is_log: bool) -> Callable[[float], float]:
    if is_log:
        scale = _scale(math.log(low), math.log(high), HEIGHT - BOTTOM, TOP)
        return lambda value: scale(math.log(max(value, low)))
    room = (high - low or abs(high) or 1.0) * 0.04
    return _scale(low - room, high + room, HEIGHT - BOTTOM, TOP)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _ticks(low: float, high: float) -> list[float]:
    """Return about four round numbers in a range."""
    if high <= low:
        return [low]
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def run_charts(record: RunRecord) -> list[Chart]:
    """Return the charts of one run: loss, metrics, gradient norm, rate, each with the run's moments."""
    css = {"alert": "alert", "failed": "bad"}
    marks = [Mark(one.step, one.text, css.get(one.text.partition(":")[0], "note")) for one in moments(record)]
    names = [key for key in record.metrics.keys() if key.startswith("validation/") and key != VALIDATION_LOSS]  # noqa: SIM118
    found = [
        chart("Loss", "optimizer step", [steps_of(record, STEP_LOSS, "train, smoothed"),
              epochs_of(record, VALIDATION_LOSS, "validation")], marks),
        chart("Validation metrics", "optimizer step",
              [epochs_of(record, key, key.removeprefix("validation/"), dashed=False) for key in names], marks),
        chart("Total gradient norm", "optimizer step", [steps_of(record, GRADIENT_NORM, "before clipping")], marks),
        chart("Learning rate", "optimizer step", [steps_of(record, LEARNING_RATE, "rate", smooth=False)], marks),
    ]  # fmt: skip
    return [one for one in found if one is not None]


def overlay_charts(records: Sequence[RunRecord]) -> list[Chart]:
    """Return the validation loss and the selection metric of several runs, by epoch; losses where they are alike."""
    basis = basis_of(records)
    keys = dict.fromkeys([VALIDATION_LOSS, *(record.selection_key or TRAIN_LOSS for record in records)])
    if basis.refused:
        keys = dict.fromkeys(key for key in [*keys, basis.key] if key is not None and key not in OF_THE_LOSS)
    found = []
    for key in list(keys)[:3]:
        lines = [
            Series(
                record.name,
                [(float(one.epoch or 0), one.value) for one in record.by_epoch(key) if is_drawable(one.value)],
            )
            for record in records
        ]
        found.append(chart(key.replace("/", " "), "epoch", lines))
    return [one for one in found if one is not None]


def steps_of(record: RunRecord, key: str, name: str, *, smooth: bool = True) -> Series:
    """Return a series of steps in few points, with its range behind."""
    buckets = [bucket for bucket in record.buckets(key, BUCKETS) if all(map(is_drawable, bucket))]
    means = [mean for _, mean, _, _ in buckets]
    if smooth and len(means) >= LEAST_SMOOTHED:
        band = [(float(step), low, high) for step, _, low, high in buckets]
        return Series(name, [(float(b[0]), y) for b, y in zip(buckets, smoothed(means), strict=True)], band)
    return Series(name, [(float(step), mean) for step, mean, _, _ in buckets])


def epochs_of(record: RunRecord, key: str, name: str, *, dashed: bool = True) -> Series:
    """Return a series of epochs over the steps at which they ended."""
    samples = [one for one in record.by_epoch(key) if is_drawable(one.value)]
    return Series(name, [(float(one.step), one.value) for one in samples], dashed=dashed)
