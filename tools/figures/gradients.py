"""Gradients and updates: their total norm beside the documents' limits, their flow, and each layer's update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.ticker import NullFormatter

from trainwright.tools.figures.recorded import nothing_recorded
from trainwright.tools.figures.series import draw_series, mark_moments, mark_non_finite, steps_text
from trainwright.tools.figures.style import (
    BLUE,
    GREEN,
    GREY,
    LARGEST,
    SMALL,
    VERMILION,
    label,
    make_logarithmic,
    middle,
    new_figure,
    plain,
    save,
)
from trainwright.tools.training_monitor.documents import load_diagnostics
from trainwright.tools.training_monitor.record import GRADIENT_NORM, RunRecord, named_records
from trainwright.trainer.run import RunDirectory

NORM_SIGNALS = ("gradient_norm", "applied_gradient_norm")
MAX_LAYERS = 40
MAX_COLUMNS = 120
LAYER_PREFIX = "layers/"


def gradient_health(run: RunDirectory, path: Path, names: Mapping[str, str] | None = None) -> Path:
    """Draw the gradient norm over the steps with its range and limits, and its distribution, into a PNG.

    Args:
        names: handle by run id, which the title shows.

    Raises:
        IntegrityError: the run's record is damaged.
    """
    (record,) = named_records([run], names)
    figure, axes = new_figure(1, 2, 4.4)
    left, right = axes[0]
    draw_series(left, record, GRADIENT_NORM, "norm (smoothed; raw behind)", BLUE)
    for value, name in _gradient_limits():
        left.axhline(value, color=GREY, linestyle=":", linewidth=1.1)
        left.annotate(plain(name), (0.01, value), xycoords=("axes fraction", "data"), xytext=(0, 2),
                      textcoords="offset points", fontsize=SMALL - 1, color=GREY)  # fmt: skip
    mark_non_finite(left, record, GRADIENT_NORM)
    label(left, "Before clipping", steps_text(record), "norm")
    shown = [value for _, value, _, _ in record.buckets(GRADIENT_NORM, 2000) if value < LARGEST]
    if min(shown, default=0.0) > 0:
        make_logarithmic(left)
    _draw_distribution(right, [value for value in shown if value > 0])
    return save(figure, f"Total gradient norm: {record.name} ({record.status.state})", path)


def _draw_distribution(axes: Axes, norms: list[float]) -> None:
    if norms:
        low, high = math.log10(min(norms)), math.log10(max(norms))
        edges = [10 ** (low + (high - low + 0.1) * i / 40) for i in range(41)]
        axes.hist(norms, bins=edges, color=BLUE, alpha=0.75)
        axes.axvline(middle(norms), color=VERMILION, linestyle="--", label=f"median {middle(norms):.3g}")
        axes.set_xscale("log")
    label(axes, "Distribution", "norm (log scale)", "steps (means of buckets in long runs)")


def _gradient_limits() -> list[tuple[float, str]]:
    triggers = {d.title.lower(): t for d in load_diagnostics() for t in d.triggers if t.signal in NORM_SIGNALS}
    return [(t.threshold, f"{title}: {t.comparison} {t.threshold:g}") for title, t in triggers.items()]


class Layers(NamedTuple):
    """One measure of a run's layers over the inspected steps."""

    names: list[str]
    """In natural order: layers.2 before layers.10."""
    steps: list[int]
    values: list[list[float]]
    """By layer, then step; NaN where a layer has none there."""
    left_out: int
    """Layers that are not drawn: of many, evenly spread ones are."""


def layers_of(record: RunRecord, measure: str) -> Layers:
    """Return one measure by layer (`layers/<measure>/<name>`), each with the newest value of a stretch of steps."""
    prefix = f"{LAYER_PREFIX}{measure}/"
    keys = sorted((key for key in record.metrics.keys() if key.startswith(prefix)), key=_natural)  # noqa: SIM118
    apart = max((len(keys) - 1) / (MAX_LAYERS - 1), 1.0)
    shown = [keys[round(place * apart)] for place in range(min(len(keys), MAX_LAYERS))]
    series = [
        {step: value for step, value, _, _ in record.buckets(key, MAX_COLUMNS) if math.isfinite(value)}
        for key in shown
    ]  # fmt: skip
    steps = sorted(set().union(*series)) if series else []
    values = [[one.get(step, math.nan) for step in steps] for one in series]
    return Layers([key.removeprefix(prefix) for key in shown], steps, values, len(keys) - len(shown))


def _natural(key: str) -> list[tuple[int, int, str]]:
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in key.replace("/", ".").split(".")]


def gradient_flow(records: list[RunRecord], path: Path) -> Path:
    """Draw the gradient norm of each layer over time, and now, from the input (top) to the output.

    Raises NotFoundError where no layer was inspected.
    """
    (record,) = records
    with record.metrics.reading():
        layers = layers_of(record, "gradient_norm")
    if not layers.steps:
        raise nothing_recorded(record, "gradient_flow", "gradient norms by layer")
    return _draw_flow(record, layers, path)


def _draw_flow(record: RunRecord, layers: Layers, path: Path) -> Path:
    figure, axes = new_figure(1, 2, min(3.2 + 0.16 * len(layers.names), 7.0), width_ratios=[2, 1], sharey=True)
    over, now = axes[0]
    positive = [value for row in layers.values for value in row if value > 0]
    low, high = (min(positive), max(positive)) if positive else (0.1, 1.0)
    shade = over.pcolormesh(
        range(len(layers.steps) + 1), [y - 0.5 for y in range(len(layers.names) + 1)],
        [[value if value > 0 else math.nan for value in row] for row in layers.values],
        norm=LogNorm(max(low, high * 1e-8), max(high, low * 1.01)), cmap="cividis",
    )  # fmt: skip
    over.set_facecolor("#dddddd")
    over.set_yticks(range(len(layers.names)), [plain(name, 34) for name in layers.names], fontsize=SMALL - 1)
    over.invert_yaxis()
    label(over, "Over the inspected steps (grey: zero or none)", steps_text(record), "")
    over.grid(visible=False)
    places = sorted({round(i * (len(layers.steps) - 1) / 5) for i in range(6)})
    over.set_xticks([place + 0.5 for place in places], [f"{layers.steps[place]}" for place in places])
    scale = figure.colorbar(
        shade, ax=over, location="bottom", shrink=0.7, aspect=40, label="norm of the gradient",
        ticks=[low, math.sqrt(low * high), high], format="%.2g",
    )  # fmt: skip
    scale.ax.minorticks_off()  # within one decade their labels would lie on one another
    scale.ax.tick_params(labelsize=SMALL)
    latest = [next((value for value in reversed(row) if math.isfinite(value)), math.nan) for row in layers.values]
    draw_by_layer(now, latest)
    label(now, f"Now (step {layers.steps[-1]})", "norm (log scale)", "")
    more = f", {len(layers.names)} of {len(layers.names) + layers.left_out} layers" if layers.left_out else ""
    return save(figure, f"Gradient flow: {record.name} ({record.status.state}{more})", path)


def draw_by_layer(axes: Axes, values: list[float]) -> None:
    """Draw one value for each layer, beside one another on a logarithmic axis; a zero is a cross at its left end."""
    positive = [value for value in values if value > 0]
    low = min(positive, default=0.1) / 2
    axes.set_xscale("log")
    axes.set_xlim(low, max(max(positive, default=1.0) * 1.5, low * 20))
    axes.xaxis.set_minor_formatter(NullFormatter())
    for place, value in enumerate(values):
        if value > 0:
            axes.plot([low, value], [place, place], color=GREY, linewidth=0.7, alpha=0.6)
    axes.plot(
        [v for v in values if v > 0], [p for p, v in enumerate(values) if v > 0], "o", color=BLUE, markersize=4
    )  # fmt: skip
    zeros = [place for place, value in enumerate(values) if value == 0]
    if zeros:
        axes.plot([low] * len(zeros), zeros, "x", color=VERMILION, markersize=6, label="zero")


# Update ratios: the size of each layer's update beside its weights, with the band in which training is healthy.

HEALTHY = (1e-4, 1e-2)
"""A tenth to ten times 1e-3, the rule of thumb of Karpathy's lecture notes (CS231n, "Ratio of weights:updates").

https://cs231n.github.io/neural-networks-3/#ratio
"""


def update_ratios(records: list[RunRecord], path: Path) -> Path:
    """Draw the ratio of update to weight norm over time (median and range of the layers) and by layer now.

    Raises NotFoundError where no layer was inspected.
    """
    (record,) = records
    with record.metrics.reading():
        layers = layers_of(record, "update_ratio")
    if not layers.steps:
        raise nothing_recorded(record, "update_ratios", "update ratios by layer")
    figure, axes = new_figure(1, 2, min(3.2 + 0.16 * len(layers.names), 7.0), width_ratios=[3, 2])
    over, now = axes[0]
    _draw_over_time(over, layers)
    mark_moments(over, record)
    label(over, "Over the inspected steps", steps_text(record), "norm of update / norm of weight (log scale)")
    over.axhspan(*HEALTHY, color=GREEN, alpha=0.12, label="healthy: about 0.001")
    latest = [next((value for value in reversed(row) if math.isfinite(value)), math.nan) for row in layers.values]
    draw_by_layer(now, latest)
    left, right = now.get_xlim()
    now.set_xlim(min(left, HEALTHY[0] / 2), max(right, HEALTHY[1] * 2))
    now.axvspan(*HEALTHY, color=GREEN, alpha=0.12)
    now.set_yticks(range(len(layers.names)), [plain(name, 34) for name in layers.names], fontsize=SMALL - 1)
    now.invert_yaxis()
    label(now, f"Now (step {layers.steps[-1]})", "ratio (log scale)", "")
    more = f", {len(layers.names)} of {len(layers.names) + layers.left_out} layers" if layers.left_out else ""
    return save(figure, f"Update ratios: {record.name} ({record.status.state}{more})", path)


def _draw_over_time(axes: Axes, layers: Layers) -> None:
    columns = [[v for v in column if v > 0] for column in zip(*layers.values, strict=True)]
    there = [(step, column) for step, column in zip(layers.steps, columns, strict=True) if column]
    steps = [step for step, _ in there]
    if not steps:
        return
    axes.fill_between(
        steps, [min(column) for _, column in there], [max(column) for _, column in there], color=BLUE, alpha=0.18,
        linewidth=0, label="lowest to highest layer",
    )  # fmt: skip
    marker = "o" if len(steps) < 40 else None
    axes.plot(steps, [middle(column) for _, column in there], color=BLUE, linewidth=1.6, marker=marker, markersize=3,
              label="median of the layers")  # fmt: skip
    last = there[-1][1]
    worst = max(range(len(layers.names)), key=lambda place: abs(math.log10(_last(layers.values[place]) / 1e-3)))
    if not HEALTHY[0] <= _last(layers.values[worst]) <= HEALTHY[1] and len(last) > 1:
        row = [(step, value) for step, value in zip(layers.steps, layers.values[worst], strict=True) if value > 0]
        axes.plot([s for s, _ in row], [v for _, v in row], color=VERMILION, linewidth=1.2, linestyle="--",
                  label=plain(f"furthest: {layers.names[worst]}", 40))  # fmt: skip
    axes.set_yscale("log")


def _last(row: list[float]) -> float:
    """Return the newest value above 0; the rule of thumb where there is none."""
    return next((value for value in reversed(row) if value > 0), 1e-3)
