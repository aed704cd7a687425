"""Marks of trials by state, and colours by value: the same in every picture of a study."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import BLACK, BLUE, GREY, LOG_RATIO, NORMAL, ORANGE, SMALL, VERMILION, cut, plain
from trainwright.tools.hyperparameter_tuner.conditions import may_be
from trainwright.tools.hyperparameter_tuner.domain import share_of
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, RUNNING
from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.config.search import Choices, IntRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject
    from trainwright.trainer.config import Range

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


# Scales of parameters: where a value lies between 0 and 1 on its axis, with ticks, for every type of range.

MISSING = -0.16
"""Place below an axis of those trials that do not have the parameter."""
MISSING_LABEL = "not set"
LONGEST_CHOICE = 14
MOST_TICKS = 5
MOST_CHOICES_LABELLED = 12
FEW_DECADES = 2.0
"""Decades up to which a logarithmic axis is labelled at 1, 2 and 5."""


@dataclass(frozen=True)
class Scale:
    """Axis of one parameter."""

    key: str
    range: Range
    low: float = 0.0
    high: float = 1.0

    @property
    def is_categorical(self) -> bool:
        """Whether its values have no order."""
        return isinstance(self.range, Choices)

    @property
    def is_log(self) -> bool:
        """Whether it is logarithmic."""
        return not isinstance(self.range, Choices) and self.range.log

    def place(self, value: Any) -> float:
        """Return where a value lies: 0 at the lower end, 1 at the upper; choices in the middle of their parts."""
        if isinstance(self.range, Choices):
            return share_of(self.range, value) if may_be(self.range, value) else MISSING
        low, high = self._bent(self.low), self._bent(self.high)
        return (self._bent(float(value)) - low) / (high - low)

    def of(self, parameters: dict[str, Any]) -> float | None:
        """Return a trial's place; None where it does not have the parameter."""
        return self.place(parameters[self.key]) if self.key in parameters else None

    def ticks(self, most: int = MOST_TICKS) -> list[tuple[float, str]]:
        """Return places with their labels, within the axis."""
        if isinstance(self.range, Choices):
            count = len(self.range.choices)
            step = math.ceil(count / MOST_CHOICES_LABELLED)
            labels = [plain(cut(_shown(choice), LONGEST_CHOICE)) for choice in self.range.choices]
            return [((place + 0.5) / count, text) for place, text in enumerate(labels)][::step]
        values = self._logarithmic() if self.is_log else self._linear(most)
        if len(values) < 2:
            values = [self.low, self.high]
        return [(self.place(value), f"{value:.4g}") for value in values]

    def draw_ticks(self, axes: Axes, most: int = MOST_TICKS, *, vertical: bool = False) -> None:
        """Give an axis of a panel these ticks and this extent."""
        found = self.ticks(most)
        axis, limits = (axes.yaxis, axes.set_ylim) if vertical else (axes.xaxis, axes.set_xlim)
        axis.set_ticks([place for place, _ in found], [text for _, text in found])
        limits(-0.04, 1.04)

    def _linear(self, most: int) -> list[float]:
        from matplotlib.ticker import MaxNLocator

        locator = MaxNLocator(most, integer=isinstance(self.range, IntRange), steps=[1, 2, 2.5, 5, 10])
        return [float(tick) for tick in locator.tick_values(self.low, self.high) if self.low <= tick <= self.high]

    def _logarithmic(self) -> list[float]:
        decades = math.log10(self.high / self.low)
        heads = (1.0,) if decades > FEW_DECADES else (1.0, 2.0, 5.0)
        exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found = [float(f"{head:g}e{power}") for power in exponents for head in heads]
        inside = [value for value in found if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)]
        return inside[:: math.ceil(len(inside) / (MOST_TICKS + 1))] if inside else []

    def _bent(self, value: float) -> float:
        return math.log(max(value, 5e-324)) if self.is_log else value


def scale_of(key: str, range_: Range, values: Iterable[Any] = ()) -> Scale:
    """Return a parameter's axis: its range, widened to values that were tried beyond it."""
    if isinstance(range_, Choices):
        return Scale(key, range_)
    tried = [float(value) for value in values if isinstance(value, int | float) and (value > 0 or not range_.log)]
    return Scale(key, range_, min([range_.low, *tried]), max([range_.high, *tried]))


def scales_of(space: dict[str, Range], keys: Sequence[str], trials: Iterable[Any]) -> list[Scale]:
    """Return the axes of some keys in their order, wide enough for all trials."""
    tried = list(trials)
    return [scale_of(key, space[key], [one.parameters[key] for one in tried if key in one.parameters]) for key in keys]


def _shown(choice: Any) -> str:
    return choice if isinstance(choice, str) else canonical_json(choice)
