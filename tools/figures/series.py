"""Series of a run as lines: smoothed, with the raw values behind them, and the run's moments as marks.

Large series are read in buckets with their lowest and highest values, so a million points draw as fast as a thousand
and a spike of one step stays visible.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from matplotlib.axes import Axes

from trainwright.tools.figures.style import GREY, ORANGE, PAPER, SMALL, VERMILION, is_drawable, plain, shown_number
from trainwright.tools.training_monitor.diagnosis import diagnose_record
from trainwright.tools.training_monitor.documents import load_diagnostics
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunState
from trainwright.trainer.run.conditions import Sample

BUCKETS = 400
"""Points drawn of a series: more cannot be distinguished at this width."""
MIN_SMOOTHED = 24
"""Points from which on a line is smoothed."""
SPAN_SHARE = 1 / 25
"""Part of a series over which it is smoothed."""
MAX_MARKS = 4
"""Alerts that are named in a panel."""


class Moment(NamedTuple):
    """One moment of a run: where, its word, and its colour."""

    step: int
    text: str
    colour: str
    style: str


def draw_series(
    axes: Axes, record: RunRecord, key: str, text: str | None, colour: str, *, style: str = "-", smooth: bool = True,
    scale: float = 1.0,
) -> bool:  # fmt: skip
    """Draw a series of steps: the raw values faint, and a smoothed line over them. Returns whether there is any.

    Args:
        scale: factor of the values, in which they are drawn.
    """
    buckets = [bucket for bucket in record.buckets(key, BUCKETS) if all(map(is_drawable, bucket))]
    if not buckets:
        return False
    steps, *values = (list(column) for column in zip(*buckets, strict=True))
    means, lows, highs = ([value * scale for value in column] for column in values)
    name = plain(text) if text is not None else None
    if len(steps) < MIN_SMOOTHED or not smooth:
        axes.plot(steps, means, color=colour, label=name, linewidth=1.4, linestyle=style,
                  marker="o" if len(steps) <= 3 else None, markersize=4)  # fmt: skip
        return True
    if any(high > low for low, high in zip(lows, highs, strict=True)):
        axes.fill_between(steps, lows, highs, color=colour, alpha=0.22, linewidth=0)
    else:
        axes.plot(steps, means, color=colour, alpha=0.3, linewidth=0.7)
    axes.plot(steps, smoothed(means), color=colour, linewidth=1.5, label=name, linestyle=style)
    return True


def draw_epochs(
    axes: Axes, record: RunRecord, key: str, text: str, colour: str, *, style: str = "-", over_epochs: bool = False
) -> None:
    """Draw a series of epochs over the optimizer steps at which they ended, or over their numbers."""
    samples = [sample for sample in record.by_epoch(key) if is_drawable(sample.value)]
    if not samples:
        return
    if len(samples) > BUCKETS:
        samples = thinned(samples)
    dots = "o" if len(samples) <= 40 else None
    places = [(one.epoch or 0) if over_epochs else one.step for one in samples]
    axes.plot(places, [one.value for one in samples], color=colour, label=plain(text), linestyle=style,
              linewidth=1.5, marker=dots, markersize=3.2 if len(samples) > 1 else 5)  # fmt: skip


def thinned(samples: list[Sample]) -> list[Sample]:
    """Keep the lowest and highest sample of each of some stretches, so that no extreme is lost."""
    width = math.ceil(len(samples) / (BUCKETS // 2))
    kept = []
    for start in range(0, len(samples), width):
        part = samples[start : start + width]
        ends = {min(part, key=lambda one: one.value), max(part, key=lambda one: one.value)}
        kept += sorted(ends, key=lambda one: one.step)
    return kept


def smoothed(values: list[float]) -> list[float]:
    """Return the exponential moving average, corrected for its start (as Adam's moments are)."""
    keep = 1.0 - 2.0 / (max(len(values) * SPAN_SHARE, 3.0) + 1.0)
    found, state = [], 0.0
    for count, value in enumerate(values, start=1):
        state = keep * state + (1.0 - keep) * value
        found.append(state / (1.0 - keep**count))
    return found


def moments(record: RunRecord) -> list[Moment]:
    """Return where the run was resumed, where it stopped before its plan's end, and its alerts."""
    resumed = [int(event.data.get("step", 0)) for event in record.run.events("resumed")]
    word = "resumed" if len(resumed) == 1 else f"resumed {len(resumed)} times, first"
    found = [Moment(step, word, GREY, ":") for step in resumed]
    status, last = record.status, record.status.step
    if status.state is RunState.FAILED:
        category = status.failure.category if status.failure is not None else "failed"
        found.append(Moment(last, f"failed: {category}", VERMILION, "-."))
    elif status.state.is_ended and status.stop_reason not in {None, "completed", "max_steps"}:
        found.append(Moment(last, f"stopped: {status.stop_reason}", GREY, "-."))
    return found + _alerts(record)


def _alerts(record: RunRecord) -> list[Moment]:
    """Return the alerts that the worker raised as they arose, and those that the record shows."""
    found = {
        str(event.data.get("id")): int(event.data.get("step") or 0)
        for event in reversed(record.run.events("alert"))
    }  # fmt: skip
    try:
        later = diagnose_record(record, load_diagnostics())
    except TrainwrightError:  # the picture is of the numbers; diagnose_run names the damage
        later = []
    for alert in later:
        if alert.severity != "info":
            found.setdefault(alert.id, alert.step)
    named = sorted(found.items(), key=lambda one: one[1])
    return [Moment(step, f"alert: {name}", ORANGE, "--") for name, step in named]


def mark_moments(axes: Axes, record: RunRecord) -> None:
    """Draw the run's moments as lines across a panel, each named in the legend; resumes count together."""
    seen: dict[str, int] = {}
    found = moments(record)
    alerts = [one for one in found if one.text.startswith("alert: ")]
    for moment in [one for one in found if one not in alerts] + alerts[:MAX_MARKS]:
        seen[moment.text] = seen.get(moment.text, 0) + 1
        text = plain(f"{moment.text} (step {moment.step})") if seen[moment.text] == 1 else None
        axes.axvline(moment.step, color=moment.colour, linestyle=moment.style, linewidth=1.1, label=text, zorder=1)


def mark_best(
    axes: Axes, record: RunRecord, key: str | None, colour: str, *, named: bool = True, over_epochs: bool = False
) -> None:
    """Ring the best epoch on the curve of the metric that chose it, with its value."""
    best = record.best
    if best is None or key is None or key != record.selection_key or not is_drawable(best.value):
        return
    text = f"best: epoch {best.epoch}" if named else None
    place = (best.epoch or 0) if over_epochs else best.step
    axes.plot([place], [best.value], marker="o", markersize=9, markerfacecolor="none", markeredgecolor=colour,
              markeredgewidth=1.6, linestyle="none", label=text)  # fmt: skip
    above = record.selection_sign < 0
    axes.annotate(shown_number(best.value), (place, best.value), xytext=(0, 9 if above else -14),
                  textcoords="offset points", ha="center", fontsize=SMALL, color=colour, bbox=PAPER)  # fmt: skip


def mark_non_finite(axes: Axes, record: RunRecord, key: str) -> None:
    """Draw where a series stopped being finite."""
    broken = [point.step for point in record.non_finite(key)]
    if broken:
        text = f"not finite at step {broken[0]}" + (f" and {len(broken) - 1} more" if len(broken) > 1 else "")
        axes.axvline(broken[0], color=VERMILION, linestyle="--", linewidth=1.3, label=text)


def steps_text(record: RunRecord) -> str:
    """Return the label of an axis of steps, with the epochs they make."""
    epochs = max(record.epoch_at.values(), default=0)
    return "optimizer step" + (f" ({epochs} epoch{'s' if epochs > 1 else ''})" if epochs else "")
