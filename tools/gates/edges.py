"""Ranges of a search whose best value lies near an end, moved that way: the same space would only find it again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import SearchSection, merge_changes
from trainwright.trainer.config.search import Choices, IntRange, Numbers

NEAR = 0.1
"""Of a range's width, on its scale: a best value so near to an end says that better ones may lie behind it."""


def moved(search: SearchSection, best: Mapping[str, Any], values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the ranges that are moved by half their width towards the best trial, by key; empty where none is.

    A share stays one, what is positive stays so, and the schema's bounds hold. A space with conditions is left alone.

    Args:
        values: of the present configuration.
    """
    if any(range_.when for range_ in search.space.values()):
        return {}
    found = {}
    for key, range_ in search.space.items():
        if isinstance(range_, Choices) or not isinstance(best.get(key), int | float) or range_.step or range_.points:
            continue
        ends = _ends(range_, float(best[key]))
        is_beyond = ends[0] < ends[1] and (ends[0] < range_.low or ends[1] > range_.high)
        if is_beyond and all(_is_valid(key, end, values) for end in ends):
            found[key] = range_.model_dump(mode="json", exclude_defaults=True) | {"low": ends[0], "high": ends[1]}
    return found


def _ends(range_: Numbers, best: float) -> tuple[float, float]:
    """Return a range's ends, moved where the best value is near one of them."""
    if range_.log and best <= 0:
        return range_.low, range_.high
    low, high = (math.log(range_.low), math.log(range_.high)) if range_.log else (range_.low, range_.high)
    place = ((math.log(best) if range_.log else best) - low) / (high - low)
    if NEAR < place < 1 - NEAR:
        return range_.low, range_.high
    shift = math.copysign((high - low) / 2, place - 0.5)
    ends = [math.exp(end + shift) if range_.log else end + shift for end in (low, high)]
    if isinstance(range_, IntRange):
        return max(round(ends[0]), min(range_.low, 1)), round(ends[1])
    if not range_.log and range_.low >= 0:
        ends[0] = max(ends[0], 0.0)
    if range_.low >= 0 and range_.high <= 1:
        ends[1] = min(ends[1], (range_.high + 1) / 2)
    return float(f"{ends[0]:.4g}"), float(f"{ends[1]:.4g}")


def _is_valid(key: str, value: float, values: dict[str, Any]) -> bool:
    try:
        merge_changes({key: value}, values, argument="changes")
    except ConfigurationError:
        return False
    return True
