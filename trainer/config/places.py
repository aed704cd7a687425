"""Places of keys: in their section, under `args`, or in another section, by our name or by another framework's."""

from __future__ import annotations

from typing import Any

from trainwright.trainer.base.errors import folded, same
from trainwright.trainer.config.key_aliases import SECTION_NAME, SWITCHES, WRAPPED, called_elsewhere, schema_keys
from trainwright.trainer.config.meant_values import as_meant
from trainwright.trainer.config.schema_index import DEFAULT_FORMS, Layout

Path = tuple[str, ...]
GENERAL = {
    *SECTION_NAME, *WRAPPED, "weight", "weights", "r", "budget", "input", "path", "file", "text", "format", "features",
    "enabled", "patterns", "method", "low", "high", "log", "choices", "model", "outputs", "size", "every_n_epochs",
}  # fmt: skip
"""Words that say nothing about a section other than the one they stand in."""


def place_of(layout: Layout, path: Path, part: str, value: Any) -> tuple[Path, Any]:
    """Return where a key written in the section at `path` belongs, and its value there.

    Where that is not certain, it is the place it was written in.
    """
    known = layout.known_keys(list(path))
    if not known or layout.is_mapping(list(path)):
        return (*path, part), value
    own = _own(layout, path, part, value, known)
    if own is not None:
        return own, value
    for switch, (key, values) in SWITCHES.items():
        flag = as_meant(bool, value)
        if folded(switch) == folded(part) and isinstance(flag, bool) and flag in values:
            return tuple(key.split(".")), values[flag]
    form = _form(layout, path, part, value)
    return form or (_elsewhere(layout, path, part) or (*path, part), value)


def _form(layout: Layout, path: Path, part: str, value: Any) -> tuple[Path, Any] | None:
    """Return the section whose form a key names, as `mixup: true` and `ema: {decay: 0.99}` do."""
    if value is not True and not isinstance(value, dict):
        return None
    inner = value if isinstance(value, dict) else {}
    parts = layout.names_at([*path, "use"]) if path else []
    if (part_name := same(part, parts)) is not None and "use" in layout.known_keys(list(path)):
        return path, {"use": part_name, **inner}
    for section in DEFAULT_FORMS:
        name = same(part, layout.forms([section]))
        if name is not None and path in {(), (section,)}:
            return (section,), {"name": name, **{key: one for key, one in inner.items() if key != "name"}}
    return None


def _own(layout: Layout, path: Path, part: str, value: Any, known: list[str]) -> Path | None:
    """Return the place in this section or below its `args`, if there is one."""
    if part == "use" and "name" in known and isinstance(value, str) and ":" not in value:
        return (*path, "name")
    args = layout.known_keys([*path, "args"]) if "args" in known else []
    here = _within(path, part, known) or _within((*path, "args"), part, args)
    if here is not None:
        return here
    is_itself = path != () and folded(part) == folded(path[-1])
    if is_itself and isinstance(value, dict):
        return path
    if (is_itself or folded(part) in SECTION_NAME) and isinstance(value, str) and {"name", "use"} & set(known):
        is_entry = "use" in known and ("name" not in known or ":" in value)
        return (*path, "use" if is_entry else "name")
    return _by_args(layout, path, part, value, known)


def _by_args(layout: Layout, path: Path, part: str, value: Any, known: list[str]) -> Path | None:
    """Return the place of what wraps arguments, or of an argument of the user's own part."""
    if folded(part) in map(folded, WRAPPED) and isinstance(value, dict) and not _is_meant_otherwise(part, path):
        return (*path, "args") if "args" in known and layout.is_taken([*path, "args"]) else path
    if path[-1:] == ("args",):
        return _within(path[:-1], part, layout.known_keys(list(path[:-1])))
    if "args" in known and ":" in str(layout.value_at([*path, "use"])) and not part.startswith("__"):
        return (*path, "args", part)
    return None


def _within(path: Path, part: str, known: list[str]) -> Path | None:
    if part in known:
        return (*path, part)
    ours = same(part, known)
    if ours is not None:
        return (*path, ours)
    named = {key.split(".")[-1] for key in called_elsewhere(part) if tuple(key.split(".")[:-1])[-1:] == path[-1:]}
    fitting = sorted(named & set(known))
    return (*path, fitting[0]) if len(fitting) == 1 else None


def _is_meant_otherwise(part: str, path: Path) -> bool:
    """Tell whether a wrapping word is one of the section's own names for something, as `params` is of a search."""
    return any(tuple(key.split(".")[:-1]) == path for key in called_elsewhere(part))


def _elsewhere(layout: Layout, path: Path, part: str) -> Path | None:
    """Return the one place in another section that the word can mean under the forms that are chosen."""
    if part in GENERAL:
        return None
    keys = [key for key in schema_keys() if folded(key.rpartition(".")[2]) == folded(part)]
    keys += [f"{of}.args.{part}" for of in ("model", "data", "loss")]
    places = [tuple(key.split(".")) for key in dict.fromkeys([*called_elsewhere(part), *keys])]
    fitting = [place for place in places if place[-1] in layout.known_keys(list(place[:-1]))]
    taken = [place for place in fitting if layout.is_taken(list(place))] or (
        fitting if path == () and len(fitting) == 1 else []
    )
    present = [place for place in taken if layout.is_present(list(place[:-1]))] or taken
    top = [place for place in present if len(place) == 1]
    return next((found[0] for found in (present, top) if len(found) == 1), None)
