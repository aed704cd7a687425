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
from trainwright.trainer.config.key_aliases import is_section, our_name
from trainwright.trainer.config.plain_values import (
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
from trainwright.trainer.config.shorthand import Path, expanded_range, expanded_section, place_of, ranges_by_key
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
            self._range(parts, given)
        else:
            value = given if len(parts) == 1 else {parts[1]: given}
            place, meant = place_of(self.layout, path, parts[0], value)
            if meant is not value:
                self._note(said, given, ".".join(place), meant)
                self._value(place, meant, ".".join(place))
            elif place == (*path, parts[0]) and self.layout.is_unknown(list(place)):
                self._keep((*path, *parts), given, said, given)
            else:
                self.read(parts[1:], given, place, said)

    def _value(self, path: Path, given: Any, said: str) -> None:
        layout, where = self.layout, list(path)
        if path == () and isinstance(given, dict):
            self.section(path, given, said)
            return
        if given is None or path == SPACE:
            self._whole(path, given, said)
            return
        is_part = bool(layout.models_at(where)) or layout.is_mapping(where) or path[-1] == "args"
        names = layout.names_at(where)
        value = from_text(given) if isinstance(given, str) and is_part else given
        if isinstance(value, str) and names:
            self._keep(path, value if ":" in value else our_name(value, names) or value, said, given)
        elif self._is_list(where) or (isinstance(value, list) and not is_part):
            self._keep(path, self._list(path, value), said, given)
        elif not is_part:
            self._keep(path, self._leaf(path, value), said, given)
        elif isinstance(value, dict):
            self.section(path, value, said)
        else:
            section = expanded_section(layout, where, value)
            if section is value:
                self._keep(path, value, said, given)
            elif section is None or not section:
                self._keep(path, section, said, given)
            else:
                self._note(said, given, ".".join(path), section)
                self.section(path, section, ".".join(path))

    def _whole(self, path: Path, given: Any, said: str) -> None:
        """Read a space, or null."""
        if given is None:
            self._keep(path, None, said, given)
            return
        value = ranges_by_key(from_text(given) if isinstance(given, str) else given)
        if isinstance(value, dict):
            self.section(path, value, said)
        else:
            self._keep(path, value, said, given)

    def section(self, path: Path, values: dict[str, Any], said: str) -> None:
        """Read the keys of a section."""
        if path == SPACE:
            self.correction.leaves[SPACE] = {}  # a space is one value
        if path == SPACE[:1]:
            values = self._with_space(values)
        is_free = path != () and (not self.layout.known_keys(list(path)) or self.layout.is_mapping(list(path)))
        if not values and self.layout.value_at(list(path)) is None:
            self._keep(path, {}, said, {})
        for key, value in values.items():
            parts = (key,) if is_free else split_key(key)
            self.read(parts, value, path, f"{said}.{key}" if said else key)

    def _range(self, parts: Path, given: Any) -> None:
        """Keep a range under the full name of its key, in our form."""
        ends = {"type", "low", "high", "log", "choices"}
        key, end = ".".join(parts), None
        if len(parts) > 1 and parts[-1] in ends:
            key, end = ".".join(parts[:-1]), parts[-1]
        place = self._searched(key, given)
        names = self.layout.names_at(list(place))
        rule = Literal[tuple(names)] if names else self.layout.rule_at(list(place))
        if end is not None:
            before = self.layout.value_at([*SPACE, ".".join(place)])
            given = {**(before if isinstance(before, dict) else {}), end: given}
        name = ".".join(place)
        said_key = f"{'.'.join(SPACE)}.{key}"
        self._keep((*SPACE, name), given if given is None else expanded_range(given, rule), said_key, given)

    def _searched(self, key: str, given: Any) -> Path:
        """Return the place of a key that is searched over; of a section, where names are given, that of its name."""
        path: Path = ()
        for part in split_key(key):
            path, _ = place_of(self.layout, path, part, None)
        choices = given.get("choices", given.get("values")) if isinstance(given, dict) else given
        are_names = isinstance(choices, list) and all(isinstance(one, str) for one in choices)
        known = self.layout.known_keys(list(path)) if are_names and is_section(".".join(path)) else []
        name = next((name for name in ("name", "use") if name in known), None)
        return (*path, name) if name is not None else path

    def _with_space(self, values: dict[str, Any]) -> dict[str, Any]:
        """Move ranges that were written beside the space into it."""
        known = self.layout.known_keys(list(SPACE[:1]))
        beside = {
            key: value
            for key, value in values.items()
            if isinstance(value, dict | list)
            and (place := place_of(self.layout, SPACE[:1], key, value)[0]) != SPACE[:1]
            and place[-1] not in known
        }
        if not beside or isinstance(values.get("space"), list | str):
            return values
        rest = {key: value for key, value in values.items() if key not in beside}
        return {**rest, "space": {**rest.get("space", {}), **beside}}

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
            return given if ":" in given else self._named(path, given, names)
        if not isinstance(given, dict) or not self.layout.models_at(list(path)):
            return given
        inner = Reading(self.layout)
        inner.section(path, given, "")
        item: dict[str, Any] = {}
        for place, value in inner.correction.leaves.items():
            put(item, place[len(path) :] if place[: len(path)] == path else place, value)
        is_bare = item.keys() == {"use"} and isinstance(item["use"], str) and names
        return self._named(path, item["use"], names) if is_bare else item

    def _named(self, path: Path, given: str, names: list[str]) -> str:
        return corrected_metric(given) if "metrics" in path else our_name(given, names) or given

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
