"""`histograms.jsonl`: how weights and gradients were distributed at a few inspected steps, a line for each step.

Counts of a parameter's entries (of a large one's sample) in fixed bins: two for each power of two, for each sign. So
histograms of all steps and runs have the same edges, and a line needs no edges.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from trainwright.trainer.run.tail import EventTail

if TYPE_CHECKING:
    from trainwright.trainer.run.directory import RunDirectory
    from trainwright.trainer.run.status import Event

HISTOGRAMS = "histograms.jsonl"
WEIGHTS, GRADIENTS = "layers/weights/", "layers/gradients/"
"""Beginnings of their keys, before a parameter's name."""
SMALLEST, LARGEST = -40, 40
"""Powers of two: what is smaller is in bin 0, what is larger in the last one of its sign."""
LAST_BIN = 2 * (LARGEST - SMALLEST)
KIND = "histograms"


class Counts(BaseModel):
    """One histogram as a line holds it."""

    model_config = ConfigDict(frozen=True)

    lowest: float
    highest: float
    bins: dict[int, int]
    """Bin to count, empty ones left out: k > 0 begins at `left_edge(k)`, 0 is about zero, -k mirrors k."""
    not_finite: int = 0


class Histogram(NamedTuple):
    """One histogram of a parameter's weights or gradients at a step."""

    key: str
    step: int
    time: float
    """Unix seconds."""
    counts: Counts

    def dense(self) -> tuple[list[int], list[float]]:
        """Return counts from the first bin that holds something to the last, and the edges around them, one more."""
        bins = self.counts.bins
        numbers = range(min(bins), max(bins) + 1)
        return [bins.get(number, 0) for number in numbers], [left_edge(n) for n in (*numbers, numbers[-1] + 1)]


@cache
def left_edge(number: int) -> float:
    """Return where a bin begins: 1, 1.5, 2, 3, 4, 6, … times a power of two."""
    if number <= 0:
        return -left_edge(1 - number)
    power, half = divmod(number - 1, 2)
    return (1.0 + half / 2) * 2.0 ** (power + SMALLEST)


def of_event(event: Event) -> list[Histogram]:
    """Return the histograms of a line; one that was damaged or edited holds none."""
    try:
        step, found = int(event.data["step"]), event.data["histograms"].items()
        every = [Histogram(str(key), step, event.time, Counts.model_validate(counts)) for key, counts in found]
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError):
        return []
    return [each for each in every if each.counts.bins and max(map(abs, each.counts.bins)) <= LAST_BIN]


def new_histograms(run: RunDirectory, read_bytes: int) -> tuple[list[Histogram], int]:
    """Return the histograms past a position in the file, and how far it reaches now. Raises OSError."""
    tail = EventTail(run, frozenset({KIND}), read_bytes, HISTOGRAMS)
    return [each for event in tail.new() for each in of_event(event)], tail.read_bytes
