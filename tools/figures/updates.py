"""Update ratios: the size of each layer's update beside its weights, with the band in which training is healthy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainwright.tools.figures.gradients import draw_by_layer, layers_of
from trainwright.tools.figures.missing import nothing_recorded
from trainwright.tools.figures.series import mark_moments, steps_text
from trainwright.tools.figures.style import (
    BLUE,
    GREEN,
    SMALL,
    VERMILION,
    figure_legend,
    label,
    middle,
    new_figure,
    plain,
    save,
)

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from trainwright.tools.figures.gradients import Layers
    from trainwright.tools.training_monitor.record import RunRecord

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
    label(
        over,
        "Over the inspected steps",
        steps_text(record),
        "norm of update / norm of weight (log scale)",
        legend=False,
    )
    over.axhspan(*HEALTHY, color=GREEN, alpha=0.12, label="healthy: about 0.001")
    latest = [next((value for value in reversed(row) if math.isfinite(value)), math.nan) for row in layers.values]
    draw_by_layer(now, latest)
    left, right = now.get_xlim()
    now.set_xlim(min(left, HEALTHY[0] / 2), max(right, HEALTHY[1] * 2))
    now.axvspan(*HEALTHY, color=GREEN, alpha=0.12)
    now.set_yticks(range(len(layers.names)), [plain(name, 34) for name in layers.names], fontsize=SMALL - 1)
    now.invert_yaxis()
    label(now, f"Now (step {layers.steps[-1]})", "ratio (log scale)", "", legend=False)
    figure_legend(figure, axes.flat)
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
