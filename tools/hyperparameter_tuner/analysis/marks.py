"""Marks of trials by state, and colours by value: the same in every picture of a study."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import BLACK, BLUE, GREY, LOG_RATIO, NORMAL, ORANGE, SMALL, VERMILION, plain
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, RUNNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject

BEST = VERMILION
BEST_MARK: dict[str, Any] = {
    "marker": "*", "markersize": 13, "color": BEST, "markeredgecolor": "white", "markeredgewidth": 0.8,
    "linestyle": "none", "zorder": 6,
}  # fmt: skip
MARKS: dict[str, dict[str, Any]] = {
    COMPLETED: {"marker": "o", "color": BLUE, "markersize": 5.5},
    PRUNED: {"marker": "v", "color": ORANGE, "markersize": 6, "markerfacecolor": "none", "markeredgewidth": 1.3},
    FAILED: {"marker": "x", "color": BLACK, "markersize": 6, "markeredgewidth": 1.3},
    RUNNING: {"marker": "o", "color": GREY, "markersize": 5.5, "markerfacecolor": "none", "markeredgewidth": 1.1},
}
"""Told apart by form as well as by colour."""


def mark(axes: Axes, state: str, x: Sequence[float], y: Sequence[float], text: str | None, **more: Any) -> None:
    """Draw trials of one state as points; none where there are none."""
    if x:
        axes.plot(x, y, linestyle="none", label=text, **{"zorder": 3, **MARKS[state], **more})


def value_text(subject: Subject) -> str:
    """Return what an axis of values is labelled with."""
    return f"validation {subject.metric.replace('_', ' ')}"


def by_value(subject: Subject, values: Sequence[float]) -> Any:
    """Return the colours of values: dark for the best, light for the worst, readable with every colour vision."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

    shades = colormaps["cividis"]([place / 255 for place in range(236)])  # its lightest end is lost on white
    if subject.direction == "maximize":
        shades = shades[::-1]
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 0.5, high + 0.5
    is_wide = low > 0 and high / low > LOG_RATIO
    norm = LogNorm(low, high) if is_wide else Normalize(low, high)
    return ScalarMappable(norm, LinearSegmentedColormap.from_list("trials", shades))


def value_bar(figure: Figure, colours: Any, subject: Subject, axes: Any) -> None:
    """Draw the scale of the values' colours beside the panels."""
    bar = figure.colorbar(colours, ax=axes, pad=0.015, fraction=0.04, aspect=28)
    bar.ax.tick_params(labelsize=SMALL)
    better = "higher" if subject.direction == "maximize" else "lower"
    bar.set_label(plain(f"{value_text(subject)} ({better} is better)"), fontsize=NORMAL)


def robust_ends(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the ends of an axis that show most values well, where a few lie very far away; None: all fit.

    The rule of box plots: what lies beyond four times the middle half's extent is far away.
    """
    found = sorted(value for value in values if math.isfinite(value))
    if len(found) < 8:
        return None
    lower, upper = found[len(found) // 4], found[(3 * len(found)) // 4]
    reach = 4.0 * (upper - lower)
    inside = [value for value in found if lower - reach <= value <= upper + reach]
    if reach == 0 or len(inside) == len(found) or (inside[-1] - inside[0]) * 3 > found[-1] - found[0]:
        return None
    margin = 0.05 * (inside[-1] - inside[0])
    return inside[0] - margin, inside[-1] + margin
