"""Episodes: numbers that a function of the user's gives for a program, one for each seed; their mean and its interval.

The function is the user's definition of what counts (a game played, a sample drawn and scored); the seeds are not the
user's: they follow from one number, which for certified figures is drawn after the program was written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .intervals import Resampling, bootstrap, wilson
from .rows import Array, RefusalError

FEW = 30
"""Episodes below which a percentile of resamples is too narrow."""
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
)  # fmt: skip
"""97.5 % of Student's distribution for 2, 3, ... episodes: the clean room has NumPy alone."""
FROM_SEED = "Draw everything that is random from `seed` alone, and keep no state between calls."


class Answering:
    """A program as the user's function calls it: arrays by position or by name, each (rows, ...), the prediction back.

    Attributes:
        calls: how often it was called.
    """

    def __init__(self, answer: Callable[[dict[str, Array]], Any]) -> None:
        self.answer, self.calls = answer, 0

    def __call__(self, *inputs: Any, **named: Any) -> Array:
        """Return the prediction, (rows, ...). Numbers of double precision are taken as single ones."""
        self.calls += 1
        given = {**{str(place): value for place, value in enumerate(inputs)}, **named}
        return np.asarray(self.answer({name: _single(value) for name, value in given.items()}))


def seeds_of(drawn: int, count: int) -> list[int]:
    """Return the seeds, each below 2**32, of as many episodes, which follow from one drawn number (O'Neill 2015)."""
    return [int(seed) for seed in np.random.SeedSequence(drawn).generate_state(count)]


def played(
    function: Callable[[Any, int], Any], program: Answering, seeds: Sequence[int], reseed: Callable[[int], Any]
) -> Array:
    """Return the number of each episode, (episodes,).

    Args:
        function: of the user's, called as (program, seed).
        program: the model.
        seeds: of the episodes; the first is played twice.
        reseed: seeds the global generators, so that a function that draws from them draws the same again.

    Raises:
        RefusalError: the function gives no finite number, never calls the program, or another number for the same seed.
    """
    found = []
    for seed in (seeds[0], *seeds):
        reseed(seed)
        found.append(_number(function(program, seed), seed))
    if not program.calls:
        raise RefusalError("it never calls the program", "Let it call program(inputs) for every decision or sample.")
    if found[0] != found[1]:
        raise RefusalError(f"it gives {found[0]:g} and then {found[1]:g} for the seed {seeds[0]}", FROM_SEED)
    return np.asarray(found[1:], dtype=np.float64)


def interval_of(values: Array) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean over episodes; None where all gave the same, and the range is not known.

    Wilson's where there are two values (won or lost), of few others Student's, of many the bootstrap's: resamples of
    few episodes are too much alike.
    """
    different = np.unique(values)
    if len(different) <= 2 and np.isin(different, (0.0, 1.0)).all():
        return wilson(float(values.mean()), len(values))
    if len(different) == 2:
        low, high = different.tolist()
        ends = wilson(float((values == high).mean()), len(values))
        return low + (high - low) * ends[0], low + (high - low) * ends[1]
    return spread_of(values) if len(different) > 2 else None


def spread_of(values: Array) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean, Student's up to FEW values and the bootstrap's of more.

    None where few values are one and the same, but 0: that two never differ is what a program beside itself shows.
    """
    mean, count = float(values.mean()), len(values)
    if count < FEW and mean and not np.ptp(values):
        return None
    found = bootstrap(lambda at: float(values[at].mean()), count, Resampling(count)) if count >= FEW else None
    if found is not None:
        return found
    half = _STUDENT[min(count, FEW) - 2] * float(values.std(ddof=1)) / math.sqrt(count)
    return mean - half, mean + half


def _single(value: Any) -> Array:
    given = np.asarray(value)
    return given.astype(np.float32) if given.dtype == np.float64 else given


def _number(value: Any, seed: int) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        shown = value if isinstance(value, float) else type(value).__name__
        raise RefusalError(f"it gives {shown} for the seed {seed}", "Return one finite number an episode.")
    return number
