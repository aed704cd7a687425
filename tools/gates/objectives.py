"""Further objectives of a study: their values by a trial's run, the bounds of the best trial, and the Pareto front.

A trial's objectives are read at one epoch, that of the goal's best value: that epoch's weights are the trial's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trainwright.trainer.run.evidence import Resolved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trainwright.trainer.config.search import ObjectiveSection
    from trainwright.trainer.run import RunDirectory

MEASURED: dict[str, Callable[[RunDirectory], float]] = {
    "parameters": lambda directory: float(directory.part(Resolved).parameters),
}
"""What the server knows of a run beside its metrics, and what is the same each time: no seconds, which are not."""


def further_values(
    directory: RunDirectory, goal: Mapping[int, float], direction: str, objectives: Sequence[ObjectiveSection]
) -> dict[str, float]:
    """Return each further objective's value at the epoch of the goal's best; one without a finite value is missing.

    Args:
        goal: the goal's metric by epoch.
        direction: of the goal.
    """
    sign = -1.0 if direction == "maximize" else 1.0
    epoch = min((at for at in goal if math.isfinite(goal[at])), key=lambda at: (sign * goal[at], at), default=None)
    reported: dict[str, Any] = {}
    if any(one.metric not in MEASURED for one in objectives):
        for event in directory.events("epoch"):  # an epoch that a resumed run repeated counts once
            if event.data.get("epoch") == epoch:
                reported = event.data.get("validation") or {}
    found = {}
    for one in objectives:
        value = MEASURED[one.metric](directory) if one.metric in MEASURED else reported.get(one.metric)
        if isinstance(value, int | float) and math.isfinite(value):
            found[one.metric] = float(value)
    return found


def place(
    value: float, further: Mapping[str, float], direction: str, objectives: Sequence[ObjectiveSection]
) -> tuple[float, ...]:
    """Return a trial's place among those that keep the bounds, least first: by the goal, then by the others.

    So of trials with one value of the goal, which few validation rows make common, the best is never a dominated one.
    """
    signs = {one.metric: -1.0 if one.direction == "maximize" else 1.0 for one in objectives}
    rest = (signs[one.metric] * further.get(one.metric, math.inf * signs[one.metric]) for one in objectives)
    return (-value if direction == "maximize" else value, *rest)


def keeps_bounds(values: Mapping[str, float], objectives: Sequence[ObjectiveSection]) -> bool:
    """Return whether a trial's further objectives are within the bounds of the search."""
    return not any(exceeded(values, one) for one in objectives)


def exceeded(values: Mapping[str, float], objective: ObjectiveSection) -> float:
    """Return by how much a value lies outside an objective's bounds; infinity where it is missing and has bounds."""
    value = values.get(objective.metric)
    low, high = objective.at_least, objective.at_most
    if value is None:
        return math.inf if low is not None or high is not None else 0.0
    return max(0.0, low - value if low is not None else 0.0, value - high if high is not None else 0.0)


def front(points: Mapping[int, Sequence[float]], directions: Sequence[str]) -> list[int]:
    """Return the keys of the points that no other dominates, in the order of the first objective, best first.

    A point dominates another that it is nowhere worse than, and somewhere better. Of equal points all are on the front.
    """
    signs = [-1.0 if direction == "maximize" else 1.0 for direction in directions]
    least = {key: [sign * value for sign, value in zip(signs, point, strict=True)] for key, point in points.items()}
    found = [key for key, point in least.items() if not any(_dominates(other, point) for other in least.values())]
    return sorted(found, key=lambda key: (least[key], key))


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
