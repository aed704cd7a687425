"""Conditions of a space: ranges that are searched only under certain values of other searched keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.base.errors import did_you_mean
from trainwright.trainer.config import Range
from trainwright.trainer.config.search import Choices


def in_order(space: Mapping[str, Range]) -> list[str]:
    """Return the keys by name, each after those that decide whether it is searched; those of a cycle last."""
    left, found = sorted(space), list[str]()
    while left:
        free = next((key for key in left if not set(space[key].when or {}) & set(left)), None)
        if free is None:
            return found + left
        left.remove(free)
        found.append(free)
    return found


def is_active(range_: Range, parameters: Mapping[str, Any], space: Mapping[str, Range]) -> bool:
    """Return whether a range is searched under these values of the keys before it in order."""
    return all(
        key in parameters and _is_among(parameters[key], allowed(space[key], given))
        for key, given in (range_.when or {}).items()
    )


def assumed(key: str, space: Mapping[str, Range]) -> dict[str, Any]:
    """Return values of other keys under which a key is searched: of each condition the first."""
    found: dict[str, Any] = {}
    left = [key]
    while left:
        for name, given in (space[left.pop()].when or {}).items():
            if name in space and name not in found:
                found[name] = next(iter(allowed(space[name], given)), None)
                left.append(name)
    return found


def allowed(parent: Range, given: Any) -> list[Any]:
    """Return the values of a condition: one, or a list of them where the list itself is no choice of the parent."""
    is_one = not isinstance(given, list) or (isinstance(parent, Choices) and _is_among(given, parent.choices))
    return [given] if is_one else list(given)


def exclude(one: str, other: str, space: Mapping[str, Range]) -> bool:
    """Return whether two keys are never searched together: under different values of a third."""
    first, second = space[one].when or {}, space[other].when or {}
    for name in first.keys() & second.keys() & space.keys():
        values, others = allowed(space[name], first[name]), allowed(space[name], second[name])
        if not any(_is_among(value, others) for value in values):
            return True
    return False


def condition_problems(space: Mapping[str, Range]) -> Iterator[str]:
    """Yield why a condition cannot hold, for each that cannot."""
    for key, range_ in space.items():
        for name, given in (range_.when or {}).items():
            if name not in space:
                hint = did_you_mean(name, [other for other in space if other != key])
                yield f"`{key}` is searched when `{name}` has a value, and `{name}` is not searched{hint}"
            elif given == [] or not all(may_be(space[name], value) for value in allowed(space[name], given)):
                can = space[name].model_dump(mode="json", exclude_none=True, exclude={"when", "type"})
                yield f"`{key}` is searched when `{name}` is {given!r}, which it never is: it has {can}"
    try:
        TopologicalSorter({key: list(range_.when or {}) for key, range_ in space.items()}).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        yield f"conditions go round in a circle: {' → '.join(f'`{one}`' for one in circle)}"


def may_be(range_: Range, value: Any) -> bool:
    """Return whether a range can take a value: a choice, or a number between its ends and on its steps."""
    if isinstance(range_, Choices):
        return _is_among(value, range_.choices)
    if isinstance(value, bool) or not isinstance(value, int if range_.type == "int" else int | float):
        return False
    if not range_.low <= value <= range_.high:
        return False
    places = (value - range_.low) / range_.step if range_.step else 0.0
    return abs(places - round(places)) < 1e-6


def own_choice(value: Any, values: Sequence[Any]) -> Any:
    """Return the one of these values that a value is, numbers by size: 0.0 is the choice 0. Raises LookupError."""
    for one in values:
        if canonical_json(one) == canonical_json(value) or (_is_number(one) and _is_number(value) and one == value):
            return one
    raise LookupError(f"{value!r} is none of {list(values)}")


def _is_among(value: Any, values: list[Any]) -> bool:
    try:
        own_choice(value, values)
    except LookupError:
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
