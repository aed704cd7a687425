"""An example that was run, what all of them came out with, and the spread of several seeds for the card."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from trainwright.tools.examples import Example, Outcome

SHARES = frozenset({"accuracy", "balanced_accuracy"})
MIN_ROWS = 2
STUDENT_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""Two-sided 95 % quantiles of Student's t by the number of values (one degree of freedom less)."""


@dataclass(frozen=True)
class Played:
    """One example, run once."""

    example: Example
    seed: int | None
    """None: the configuration's own."""
    outcome: Outcome | None
    """None where it did not get as far as a project."""
    seconds: float

    @property
    def released(self) -> bool:
        """Whether its project ended with a released model."""
        return self.outcome is not None and self.outcome.released

    @property
    def within(self) -> bool:
        """Whether its figure is within the card's spread."""
        return self.outcome is not None and self.outcome.within

    @property
    def value(self) -> float:
        """Its figure; not a number where there is none."""
        found = self.outcome.value if self.outcome is not None else None
        return math.nan if found is None else found

    @property
    def rows(self) -> int:
        """Held-back rows; 0 where there is no figure."""
        return self.outcome.rows if self.outcome is not None else 0

    def row(self) -> str:
        """Return its row of the table."""
        expected = self.example.expected
        cells = [
            self.example.name, "own" if self.seed is None else self.seed, expected.metric,
            f"{self.value:.4f}{'' if self.within else ' (outside)'}",
            f"{expected.mean:.4g} ({expected.low:.4g} to {expected.high:.4g})", f"{self.example.naive.value:.4g}",
            self.rows, "yes" if self.released else "NO", f"{self.seconds:.0f}",
        ]  # fmt: skip
        return f"| {' | '.join(map(str, cells))} |"


def figures(found: list[Played]) -> dict[str, float]:
    """Return what the runs came out with, in figures."""
    return {
        "examples": len(found),
        "released": sum(each.released for each in found),
        "within_figures": sum(each.within for each in found),
        "seconds_max": max((each.seconds for each in found), default=0.0),
    }


def spread(values: list[float], metric: str, rows: int) -> tuple[float, float, float]:
    """Return mean, and the bounds in which 95 of 100 further seeds are to be expected, by Student's t.

    A share of counted rows cannot be known better than by two of them.
    """
    mean = statistics.mean(values)
    half = STUDENT_95.get(len(values), 1.96) * statistics.stdev(values) * math.sqrt(1 + 1 / len(values))
    if metric in SHARES and rows:
        half = max(half, MIN_ROWS / rows)
    return mean, mean - half, mean + half


def for_the_card(found: list[Played]) -> str:
    """Return the `expected` of a card from one example's runs."""
    metric, values = found[0].example.expected.metric, [each.value for each in found]
    mean, low, high = spread(values, metric, found[0].rows)
    seeds = [each.seed for each in found]
    seen = ", ".join(f"{value:.4f}" for value in values)
    return (
        f"expected: {{metric: {metric}, mean: {mean:.4f}, low: {low:.4f}, high: {high:.4f}, seeds: {seeds}}}  # {seen}"
    )
