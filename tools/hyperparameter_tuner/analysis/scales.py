"""Scales of parameters: where a value lies between 0 and 1 on its axis, with ticks, for every type of range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import cut, plain
from trainwright.tools.hyperparameter_tuner.conditions import may_be
from trainwright.tools.hyperparameter_tuner.domain import share_of
from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.config.search import Choices, IntRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from trainwright.trainer.config import Range

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
