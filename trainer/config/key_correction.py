"""Key correction: keys put where they belong, values in the form of their key.

Only an input with one reading is corrected, and each time a note says so. All else stays as written, for the schema to
refuse.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.goal import corrected_metric
from trainwright.trainer.config.key_aliases import our_name
from trainwright.trainer.config.key_places import expanded_section, place_of
from trainwright.trainer.config.plain_values import (
    Path,
    copied,
    equal,
    flatten,
    left_over,
    put,
    require_plain,
    shown,
    split_key,
)
from trainwright.trainer.config.schema_index import Layout
from trainwright.trainer.config.search_ranges import expanded_range, ranges_by_key
from trainwright.trainer.config.value_coercion import coerced, fits, from_text

ROUNDS = 4
"""A key's meaning may only be known once the name of its section is."""
SPACE = ("search", "space")
MEASURED = ("selection", "metric")
NONE_BY_NUMBER = {
    "training.clip_norm", "training.clip_value", "training.max_steps", "optimizer.layer_decay",
    "loader.prefetch_factor", "checkpoints.checkpoint_every_n_steps",
}  # fmt: skip
"""Keys that may be null, and that others switch off with 0 or -1."""


@dataclass
class Correction:
    """Requested changes, in the schema's words."""

    leaves: dict[Path, Any] = field(default_factory=dict)
    """Place of a key to its value; None takes it out."""
    notes: list[str] = field(default_factory=list)
    """One sentence for each input that was read in another form than it was written in."""
    clashes: dict[Path, str] = field(default_factory=dict)
    """Keys that were given twice with different values."""


class Reading:
    """One pass over the requested changes, against the configuration that results."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.correction = Correction()
        self._said: dict[Path, str] = {}

    def read(self, parts: Path, given: Any, path: Path, said: str) -> None:
        """Find the place of a key written as `parts` below `path`, and keep its value.

        Args:
            said: the full key as the caller wrote it.
        """
        if not parts:
            self._value(path, given, said)
        elif path == SPACE:
            self._range(".".join(parts), given)
        else:
            value = given if len(parts) == 1 else {parts[1]: given}
            place, meant = place_of(self.layout, path, parts[0], value)
            if path == SPACE[:1] and place[:1] != path and isinstance(given, dict | list):  # a range beside the space
                self.correction.leaves.setdefault(SPACE, {})
                self._range(".".join(parts), given)
            elif meant is not value:
                self._note(said, given, ".".join(place), meant)
                self._value(place, meant, ".".join(place))
            elif place == (*path, parts[0]) and self.layout.is_unknown(list(place)):
                self._keep((*path, *parts), given, said, given)
            else:
                self.read(parts[1:], given, place, said)

    def section(self, path: Path, values: dict[str, Any], said: str) -> None:
        """Read the keys of a section."""
        layout, where = self.layout, list(path)
        if path == SPACE:
            self.correction.leaves[SPACE] = {}  # a space is one value
        is_free = path != () and (not layout.known_keys(where) or layout.is_mapping(where))
        if not values and layout.value_at(where) is None:
            self._keep(path, {}, said, {})
        for key, value in values.items():
            parts = (key,) if is_free else split_key(key)
            self.read(parts, value, path, f"{said}.{key}" if said else key)

    def _value(self, path: Path, given: Any, said: str) -> None:
        layout, where = self.layout, list(path)
        is_section = bool(layout.models_at(where)) or layout.is_mapping(where) or path[-1] == "args"
        value = from_text(given) if isinstance(given, str) and is_section else given
        value = ranges_by_key(value) if path == SPACE else value
        if given is None:
            self._keep(path, None, said, given)
        elif isinstance(value, str) and layout.names_at(where):
            self._keep(path, self._name(path, value), said, given)
        elif self._is_list(where) or (isinstance(value, list) and not is_section):
            self._keep(path, self._list(path, value), said, given)
        elif not is_section:
            self._keep(path, self._leaf(path, value), said, given)
        elif isinstance(value, dict):
            self.section(path, value, said)
        else:
            meant = value if path == SPACE else expanded_section(layout, where, value)
            if meant is value or not meant:
                self._keep(path, meant, said, given)
            else:
                self._note(said, given, ".".join(path), meant)
                self.section(path, meant, ".".join(path))

    def _range(self, key: str, given: Any) -> None:
        """Keep a range under the full name of its key, in our form."""
        place: Path = ()
        for part in split_key(key):
            place, _ = place_of(self.layout, place, part, None)
        choices = given.get("choices", given.get("values")) if isinstance(given, dict) else given
        known = [] if self.layout.is_unknown(list(place)) else self.layout.known_keys(list(place))
        if isinstance(choices, list) and all(isinstance(one, str) for one in choices) and {"name", "use"} & set(known):
            place = (*place, "name" if "name" in known else "use")
        names = self.layout.names_at(list(place))
        rule = Literal[tuple(names)] if names else self.layout.rule_at(list(place))
        meant = given if given is None else expanded_range(given, rule)
        self._keep((*SPACE, ".".join(place)), meant, f"{'.'.join(SPACE)}.{key}", given)

    def _is_list(self, where: list[str]) -> bool:
        rule = self.layout.rule_at(where)
        return rule is not None and fits(rule, []) and not fits(rule, {})

    def _list(self, path: Path, given: Any) -> Any:
        rule = self.layout.rule_at(list(path))
        as_list = given if isinstance(given, list) else [given] if isinstance(given, dict) else coerced(rule, given)
        if not isinstance(as_list, list):
            return as_list
        items = [self._item((*path, str(place)), item) for place, item in enumerate(as_list)]
        return items if rule is None else coerced(rule, items)

    def _item(self, path: Path, given: Any) -> Any:
        """Return an item of a list as it is meant: a name or a section."""
        names = self.layout.names_at(list(path))
        if isinstance(given, str) and names:
            return self._name(path, given)
        if not isinstance(given, dict) or not self.layout.models_at(list(path)):
            return given
        inner = Reading(self.layout)
        inner.section(path, given, "")
        item: dict[str, Any] = {}
        for place, value in inner.correction.leaves.items():
            put(item, place[len(path) :] if place[: len(path)] == path else place, value)
        is_bare = item.keys() == {"use"} and isinstance(item["use"], str) and names
        return self._name(path, item["use"]) if is_bare else item

    def _name(self, path: Path, given: str) -> str:
        if ":" in given:
            return given
        return (
            corrected_metric(given) if "metrics" in path else our_name(given, self.layout.names_at(list(path))) or given
        )

    def _leaf(self, path: Path, given: Any) -> Any:
        rule = self.layout.rule_at(list(path))
        if rule is None:
            return given
        if path == MEASURED and isinstance(given, str):
            return corrected_metric(given)
        value = coerced(rule, given)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if is_number and value <= 0 and ".".join(path) in NONE_BY_NUMBER else value

    def _keep(self, path: Path, value: Any, said: str, given: Any) -> None:
        written = self._said.get(path)
        if written is not None and not equal(self.correction.leaves[path], value):
            key, before = ".".join(path), shown(self.correction.leaves[path])
            self.correction.clashes[path] = (
                f"`{key}` is given twice: {before} as `{written}`, {shown(value)} as `{said}`"
            )
            if written == key:
                return
        self.correction.leaves[path], self._said[path] = value, said
        self._note(said, given, ".".join(path), value)

    def _note(self, said: str, given: Any, key: str, value: Any) -> None:
        if said != key or not equal(given, value):
            moved = f" {key}" if said != key else ""
            changed = f" {shown(value)}" if not equal(given, value) else ""
            self.correction.notes.append(f"{said} {shown(given)} taken as{moved}{changed}")


def correct_changes(asked: dict[str, Any], base: dict[str, Any]) -> Correction:
    """Return the meaning of dotted or nested changes to a configuration.

    Args:
        asked: as the caller wrote it; sections are laid over those of `base`, and null takes a key out.
        base: the configuration so far, which gives each section's form.

    Raises:
        ConfigurationError: a value that is not plain, or a key that is not dotted.
    """
    require_plain(asked)
    leaves = {tuple(key.split(".")): value for key, value in flatten(asked).items()}
    for _ in range(ROUNDS):
        reading = Reading(Layout(_as_far_as_it_goes(base, leaves)))
        reading.section((), asked, "")
        if reading.correction.leaves == leaves:
            break
        leaves = reading.correction.leaves
    correction = reading.correction
    for path, why in left_over(base, _as_far_as_it_goes(base, correction.leaves), correction.leaves):
        correction.leaves[path] = None
        correction.notes.append(why)
    return correction


def _as_far_as_it_goes(base: dict[str, Any], leaves: dict[Path, Any]) -> dict[str, Any]:
    """Return the configuration that keys are read against, without the parts that contradict the rest."""
    result: dict[str, Any] = copied(base)
    for path in sorted(leaves, key=len):
        with suppress(ConfigurationError):
            put(result, path, leaves[path])
    return result
