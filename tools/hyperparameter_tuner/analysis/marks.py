"""Marks of trials by state, colours by value, and the axes of values and of parameters: the same in every picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import (
    BLACK,
    BLUE,
    GREY,
    LOG_RATIO,
    NORMAL,
    ORANGE,
    SMALL,
    VERMILION,
    cut,
    plain,
)
from trainwright.tools.hyperparameter_tuner.domain import share_of
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, RUNNING
from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.config import Range
from trainwright.trainer.config.search import Choices, IntRange

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject
    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord

MARKS: dict[str, dict[str, Any]] = {
    COMPLETED: {"marker": "o", "color": BLUE, "markersize": 5.5},
    PRUNED: {"marker": "v", "color": ORANGE, "markersize": 6, "markerfacecolor": "none", "markeredgewidth": 1.3},
    FAILED: {"marker": "x", "color": BLACK, "markersize": 6, "markeredgewidth": 1.3},
    RUNNING: {"marker": "o", "color": GREY, "markersize": 5.5, "markerfacecolor": "none", "markeredgewidth": 1.1},
}
"""Told apart by form as well as by colour."""
BEST = VERMILION
BEST_MARK = {"marker": "*", "markersize": 13, "color": BEST, "markeredgecolor": "white", "markeredgewidth": 0.8}


def mark(axes: Axes, state: str, points: Sequence[tuple[float, float]], text: str, **more: Any) -> None:
    """Draw trials of one state as points (x, y); none where there are none."""
    if points:
        style = {"linestyle": "none", "zorder": 3, **MARKS[state], **more}
        axes.plot([x for x, _ in points], [y for _, y in points], label=text, **style)


def mark_best(axes: Axes, subject: Subject, x: float, y: float) -> None:
    """Draw the best trial's star."""
    text = f"best: trial {subject.best.number}" if subject.best is not None else ""
    axes.plot([x], [y], label=text, linestyle="none", zorder=6, **BEST_MARK)  # type: ignore[arg-type]


def value_text(subject: Subject) -> str:
    """Return what an axis of values is labelled with."""
    return f"validation {subject.metric.replace('_', ' ')}"


def value_axis(axes: Axes, subject: Subject, values: Sequence[float | None]) -> None:
    """Name and scale the axis of values: logarithmic where they are wide apart, else without the few far worse ones."""
    found = [value for value in values if value is not None and math.isfinite(value)]
    text = plain(value_text(subject))
    if subject.direction == "minimize" and min(found, default=0.0) > 0 and max(found) / min(found) > LOG_RATIO:
        axes.set_yscale("log")
        text += " (log scale)"
    elif (ends := robust_ends(subject, found)) is not None:
        axes.set_ylim(*ends)
        text += "\n(a few lie beyond)"
    axes.set_ylabel(text, fontsize=NORMAL)


def robust_ends(subject: Subject, values: Sequence[float]) -> tuple[float, float] | None:
    """Return the ends of an axis that show most values well, where a few are far worse; None: all fit.

    The rule of box plots: what lies beyond four times the middle half's extent is far away. Better ones always show,
    and so does the best trial, whose value may be a bad one where there are bounds.
    """
    found = sorted(value for value in values if math.isfinite(value))
    if len(found) < 8:
        return None
    lower, upper = found[len(found) // 4], found[(3 * len(found)) // 4]
    reach = 4.0 * (upper - lower)
    best = subject.best.value if subject.best is not None and subject.best.value is not None else lower
    is_up = subject.direction == "maximize"
    low, high = (min(lower - reach, best), math.inf) if is_up else (-math.inf, max(upper + reach, best))
    inside = [value for value in found if low <= value <= high]
    if reach == 0 or (inside[-1] - inside[0]) * 3 > found[-1] - found[0]:
        return None
    margin = 0.05 * (inside[-1] - inside[0])
    return inside[0] - margin, inside[-1] + margin


def by_value(axes: Axes, subject: Subject) -> tuple[Any, tuple[float, float]]:
    """Return the colours of the completed trials' values and the ends of their scale, which is drawn beside the panel.

    Dark for the best, light for the worst, readable with every colour vision.
    """
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, LogNorm, Normalize

    shades = [colormaps["cividis"](place / 255) for place in range(236)]  # its lightest end is lost on white
    values = [one.value for one in subject.completed if one.value is not None]
    low, high = ends = robust_ends(subject, values) or (min(values), max(values))
    if low == high:
        low, high = low - 0.5, high + 0.5
    is_up = subject.direction == "maximize"
    norm = LogNorm(low, high) if not is_up and low > 0 and high / low > LOG_RATIO else Normalize(low, high)
    colours = ScalarMappable(norm, ListedColormap(shades[::-1] if is_up else shades))
    bar = axes.figure.colorbar(colours, ax=axes, pad=0.015, fraction=0.04, aspect=28)
    bar.ax.tick_params(labelsize=SMALL)
    bar.set_label(plain(f"{value_text(subject)} ({'higher' if is_up else 'lower'} is better)"), fontsize=NORMAL)
    return colours, ends


# Scales of parameters: where a value lies between 0 and 1 on its axis, with ticks, for every type of range.

MISSING = -0.16
"""Place below an axis of those trials that do not have the parameter."""
LONGEST_CHOICE = 14
MAX_TICKS = 5
MAX_CHOICES_LABELLED = 12
LONGEST_TICKS = 24
"""Characters of a panel's choices together, above which they are turned."""
FEW_DECADES = 2.0
"""Decades up to which a logarithmic axis is labelled at 1, 2 and 5."""
SPREAD = 0.3
"""Share of a choice's part over which its trials are spread, so that they do not hide one another."""
GOLDEN, PLASTIC = 0.618034, 0.754878
"""Steps of the spread along an axis and up one: multiples of them fill a part evenly (quasi-random)."""


@dataclass(frozen=True)
class Scale:
    """Axis of one parameter."""

    key: str
    range: Range

    @property
    def is_categorical(self) -> bool:
        """Whether its values have no order."""
        return isinstance(self.range, Choices)

    @property
    def note(self) -> str:
        """What its label says after the key."""
        return " (log scale)" if not isinstance(self.range, Choices) and self.range.log else ""

    def place(self, value: Any) -> float:
        """Return where a value lies: 0 at the lower end, 1 at the upper; choices in the middle of their parts."""
        if isinstance(self.range, Choices):
            return share_of(self.range, value)
        bent = math.log if self.range.log else float
        low, high = bent(self.range.low), bent(self.range.high)
        return (bent(value) - low) / (high - low)

    def spread(self, trial: TrialRecord, step: float = GOLDEN) -> float:
        """Return a trial's place; trials of one choice lie beside one another in their order, not on one another."""
        place = self.place(trial.parameters[self.key])
        if not isinstance(self.range, Choices):
            return place
        return place + SPREAD / len(self.range.choices) * ((trial.number * step) % 1.0 - 0.5)

    def ticks(self, most: int = MAX_TICKS) -> list[tuple[float, str]]:
        """Return places with their labels, within the axis."""
        from matplotlib.ticker import LogLocator, MaxNLocator

        if isinstance(self.range, Choices):
            choices = self.range.choices[:: math.ceil(len(self.range.choices) / MAX_CHOICES_LABELLED)]
            return [(share_of(self.range, one), plain(cut(_shown(one), LONGEST_CHOICE))) for one in choices]
        low, high = self.range.low, self.range.high
        if self.range.log:
            heads = (1.0,) if math.log10(high / low) > FEW_DECADES else (1.0, 2.0, 5.0)
            found = LogLocator(subs=heads, numticks=most + 1).tick_values(low, high)
        else:
            locator = MaxNLocator(most, integer=isinstance(self.range, IntRange), steps=[1, 2, 2.5, 5, 10])
            found = locator.tick_values(low, high)
        inside = [value for value in map(float, found) if -1e-9 <= self.place(value) <= 1 + 1e-9]
        return [(self.place(one), f"{one:.4g}") for one in (inside if len(inside) > 1 else (low, high))]

    def draw_ticks(self, axes: Axes, most: int = MAX_TICKS, *, vertical: bool = False) -> None:
        """Give an axis of a panel these ticks and this extent."""
        places, texts = zip(*self.ticks(most), strict=True)
        axis, limits = (axes.yaxis, axes.set_ylim) if vertical else (axes.xaxis, axes.set_xlim)
        axis.set_ticks(places, texts)
        if self.is_categorical and not vertical and sum(map(len, texts)) > LONGEST_TICKS:
            axes.tick_params(axis="x", labelrotation=25)
        limits(-0.04, 1.04)


def scales_of(subject: Subject, most: int) -> list[Scale]:
    """Return the axes of the most important keys."""
    return [Scale(key, subject.space[key]) for key in subject.leading_keys(most)]


def _shown(choice: Any) -> str:
    return choice if isinstance(choice, str) else canonical_json(choice)
