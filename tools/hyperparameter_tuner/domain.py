"""Domain of a search: the parameters that a trial may have, by ranges, conditions and constraints."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trainwright.tools.hyperparameter_tuner.conditions import in_order, is_active, may_be, own_choice
from trainwright.tools.hyperparameter_tuner.constraints import Constraint
from trainwright.trainer.config import flatten, parse_config
from trainwright.trainer.config.schema_index import Layout
from trainwright.trainer.config.search import Choices, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainwright.trainer.config import Range, SearchSection


class Domain:
    """What a search may try, over the configuration that its trials change."""

    def __init__(self, search: SearchSection, base_values: Mapping[str, Any]) -> None:
        """Read the constraints, whose other keys have the base's values. Raises ValueError for one that is none."""
        self.space = search.space
        self._is_grid = search.method == "grid"
        self.where = "on the grid of" if self._is_grid else "in its range"
        self.order = in_order(search.space)
        self.present = Present(base_values)
        self.constraints = [Constraint(text) for text in search.constraints]
        keys = {key for constraint in self.constraints for key in constraint.keys}
        self._fixed = {key: self.present.value(key) for key in sorted(keys)}

    @property
    def is_conditional(self) -> bool:
        """Whether any range is searched only under values of others."""
        return any(range_.when for range_ in self.space.values())

    def is_active(self, key: str, parameters: Mapping[str, Any]) -> bool:
        """Return whether a key is searched under these values of the keys before it in order."""
        return is_active(self.space[key], parameters, self.space)

    def kept(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that are searched together, by key; the others keep the configuration's values.

        A value that is one of its range's choices has the choice's own form, by which methods tell choices apart.
        """
        found: dict[str, Any] = {}
        for key in self.order:
            if key in parameters and self.is_active(key, found):
                found[key] = _own_form(self.space[key], parameters[key])
        return dict(sorted(found.items()))

    def meets(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether a trial of these parameters meets every constraint."""
        return not self.broken(parameters)

    def broken(self, parameters: Mapping[str, Any]) -> list[str]:
        """Return the constraints that a trial of these parameters does not meet."""
        values = {**self._fixed, **parameters}
        return [constraint.text for constraint in self.constraints if not constraint.holds(values)]

    def takes(self, key: str, value: Any) -> bool:
        """Return whether a range, and of a grid one of its values, is this one."""
        range_ = self.space[key]
        return may_be(range_, value) and (not self._is_grid or value in (spread(range_) or []))

    def at(self, shares: Sequence[float]) -> dict[str, Any]:
        """Return the point of the unit cube, an axis each key by name, as parameters that are searched together."""
        return self.kept(
            {key: at(self.space[key], share) for key, share in zip(sorted(self.space), shares, strict=True)}
        )

    def points(self) -> Iterator[dict[str, Any]]:
        """Give the grid's points that meet the constraints: the last key by name changes first.

        Raises ValueError naming a float range that has neither `step` nor `points`.
        """
        values: dict[str, list[Any]] = {}
        for key, range_ in self.space.items():
            found = spread(range_)
            if found is None:
                raise ValueError(key)
            values[key] = found
        yield from (point for point in self._grid(self.order, {}, values) if self.meets(point))

    def _grid(
        self, left: Sequence[str], chosen: dict[str, Any], values: Mapping[str, list[Any]]
    ) -> Iterator[dict[str, Any]]:
        if not left:
            yield dict(sorted(chosen.items()))
            return
        key, *rest = left
        if not self.is_active(key, chosen):
            yield from self._grid(rest, chosen, values)
            return
        for value in values[key]:
            yield from self._grid(rest, {**chosen, key: value}, values)


def _own_form(range_: Range, value: Any) -> Any:
    if isinstance(range_, Choices) and may_be(range_, value):
        return own_choice(value, range_.choices)
    return value


def at(range_: Range, share: float) -> Any:
    """Return a range's value at a share of its width: 0 is its low end or first choice, just below 1 its last.

    Whole numbers, steps and choices have equal parts of the width, on the range's scale.
    """
    if isinstance(range_, Choices):
        return range_.choices[min(int(share * len(range_.choices)), len(range_.choices) - 1)]
    step = range_.step or (1 if range_.type == "int" else None)
    if step is None:
        ends = [math.log(range_.low), math.log(range_.high)] if range_.log else [range_.low, range_.high]
        value = ends[0] + (ends[1] - ends[0]) * share
        return min(max(math.exp(value) if range_.log else value, range_.low), range_.high)
    if range_.log:
        ends = [math.log(range_.low - 0.5), math.log(range_.high + 0.5)]
        return min(max(round(math.exp(ends[0] + (ends[1] - ends[0]) * share)), range_.low), range_.high)
    count = math.floor((range_.high - range_.low) / step + 1e-9) + 1
    value = range_.low + min(int(share * count), count - 1) * step
    return value if range_.type == "int" else min(float(f"{value:.12g}"), range_.high)


def share_of(range_: Range, value: Any) -> float:
    """Return where in a range's width a value lies, as `at` counts it: the middle of the value's part."""
    if isinstance(range_, Choices):
        return (range_.choices.index(own_choice(value, range_.choices)) + 0.5) / len(range_.choices)
    step = range_.step or (1 if range_.type == "int" else None)
    if step is None or range_.log:
        edge = 0.5 if range_.type == "int" else 0.0
        scale = math.log if range_.log else float
        low, high = scale(range_.low - edge), scale(range_.high + edge)
        return float((scale(value) - low) / (high - low))
    count = math.floor((range_.high - range_.low) / step + 1e-9) + 1
    return float((round((value - range_.low) / step) + 0.5) / count)


# Values of the present configuration by dotted key, defaults included.


class Present:
    """The configuration that a study's trials change, read once."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    @cached_property
    def _whole(self) -> dict[str, Any]:
        return parse_config(self._values).model_dump(mode="json")

    def has(self, key: str) -> bool:
        """Return whether the configuration has such a key, or may have."""
        parts = key.split(".")
        found, _ = self._find(parts)
        layout = Layout(self._whole)
        return found or (not layout.is_unknown(parts) and bool(layout.known_keys(parts[:-1]) or "args" in parts))

    def keys(self) -> list[str]:
        """Return every dotted key that has a value."""
        return list(flatten(self._whole))

    def value(self, key: str) -> Any:
        """Return a key's value, or its default; None where it has neither."""
        parts = key.split(".")
        found, value = self._find(parts)
        if found:
            return value
        for model in Layout(self._whole).models_at(parts[:-1]):  # a built-in part's argument that was left out
            about = model.model_fields.get(parts[-1])
            if about is not None and not about.is_required():
                return about.get_default(call_default_factory=True)
        return None

    def _find(self, parts: list[str]) -> tuple[bool, Any]:
        value: Any = self._whole
        for part in parts:
            if not isinstance(value, dict) or part not in value:
                return False, None
            value = value[part]
        return True, value
