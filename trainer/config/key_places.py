"""Key places: where a key of a configuration belongs, and the section that a bare value means."""

from __future__ import annotations

import math
from typing import Any

from trainwright.trainer.base.errors import folded, same
from trainwright.trainer.catalog.names import from_library
from trainwright.trainer.config.key_aliases import (
    SECTION_NAME,
    SWITCHES,
    WRAPPED,
    known_elsewhere,
    may_be_meant,
    our_name,
)
from trainwright.trainer.config.plain_values import Path, put
from trainwright.trainer.config.schema_index import DEFAULT_FORMS, Layout
from trainwright.trainer.config.value_coercion import FLAGS, NOTHING, coerced, fits, fixed_values

GENERAL = {
    *SECTION_NAME, *WRAPPED, "weight", "weights", "r", "budget", "input", "path", "file", "text", "format", "features",
    "enabled", "patterns", "method", "low", "high", "log", "choices", "model", "outputs", "size", "every_n_epochs",
}  # fmt: skip
"""Words that mean something only in the section that they are in."""
MAIN = {
    "early_stopping": "patience_epochs",
    "training.compile": "mode",
    "search.pruning": "name",
    "deployment": "formats",
}
"""Sections to the key that a bare value is for; of others it is the only required one."""
OFF = {"schedule": {"name": "constant"}}
"""Sections that cannot be null, and the value that means none."""


def place_of(layout: Layout, path: Path, part: str, value: Any) -> tuple[Path, Any]:
    """Return where a key written in the section at `path` belongs, and its value there.

    Where that is not certain, it is the place it was written in.
    """
    known = layout.known_keys(list(path))
    if not known or layout.is_mapping(list(path)):
        return (*path, part), value
    own = _own_place(layout, path, part, value, known) or _wrapped(layout, path, part, value, known)
    if own is not None:
        return own, value
    for switch, (key, values) in SWITCHES.items():
        flag = coerced(bool, value)
        if folded(switch) == folded(part) and isinstance(flag, bool) and flag in values:
            return tuple(key.split(".")), values[flag]
    form = _form(layout, path, part, value)
    return form or (_elsewhere(layout, path, part) or (*path, part), value)


def _own_place(layout: Layout, path: Path, part: str, value: Any, known: list[str]) -> Path | None:
    """Return the place in this section, among its arguments, or beside the arguments that this section is."""
    is_text, is_own_code = isinstance(value, str), ":" in str(value)
    if part == "use" and "name" in known and is_text and not is_own_code:
        return (*path, "name")
    sections = [path, *([(*path, "args")] if "args" in known else []), *([path[:-1]] if path[-1:] == ("args",) else [])]
    for section in sections:
        found = _named(section, part, layout.known_keys(list(section)))
        if found is not None:
            return (*section, found)
    is_named = folded(part) in SECTION_NAME or (path != () and folded(part) == folded(path[-1]))
    if is_named and is_text and {"name", "use"} & set(known):
        return (*path, "use" if "use" in known and ("name" not in known or is_own_code) else "name")
    return None


def _named(section: Path, part: str, known: list[str]) -> str | None:
    """Return the known key of a section that a word is, whatever its case, or is called elsewhere."""
    ours = part if part in known else same(part, known)
    theirs = [key.split(".") for key in known_elsewhere(part)]
    fitting = sorted({key[-1] for key in theirs if tuple(key[-2:-1]) == section[-1:]} & set(known))
    return ours or (fitting[0] if len(fitting) == 1 else None)


def _wrapped(layout: Layout, path: Path, part: str, value: Any, known: list[str]) -> Path | None:
    """Return the place of a key that only wraps others, or of an argument of user code."""
    if isinstance(value, dict) and path != () and folded(part) == folded(path[-1]):
        return path
    means_more = any(tuple(key.split(".")[:-1]) == path for key in known_elsewhere(part))  # as `params` of a search
    if isinstance(value, dict) and folded(part) in map(folded, WRAPPED) and not means_more:
        return (*path, "args") if "args" in known and layout.is_taken([*path, "args"]) else path
    if "args" in known and ":" in str(layout.value_at([*path, "use"])) and not part.startswith("__"):
        return (*path, "args", part)
    return None


def _form(layout: Layout, path: Path, part: str, value: Any) -> tuple[Path, Any] | None:
    """Return the section whose form a key names, as `mixup: true` and `ema: {decay: 0.99}` do."""
    if value is not True and not isinstance(value, dict):
        return None
    inner = value if isinstance(value, dict) else {}
    parts = layout.names_at([*path, "use"]) if "use" in layout.known_keys(list(path)) else []
    if path != () and (name := same(part, parts)) is not None:
        return path, {"use": name, **inner}
    for section in DEFAULT_FORMS:
        name = same(part, layout.forms([section]))
        if name is not None and path in {(), (section,)}:
            return (section,), {**inner, "name": name}
    return None


def _elsewhere(layout: Layout, path: Path, part: str) -> Path | None:
    """Return the one place in another section that the word can mean under the forms that are chosen."""
    if part in GENERAL:
        return None
    keys = [*known_elsewhere(part), *(f"{of}.args.{part}" for of in ("model", "data", "loss"))]
    places = {tuple(key.split(".")) for key in keys if may_be_meant(key, path)}
    known = [place for place in places if place[-1] in layout.known_keys(list(place[:-1]))]
    taken = [place for place in known if layout.is_taken(list(place))] or (known if path == () else [])
    present = [place for place in taken if layout.is_present(list(place[:-1]))] or taken
    top = [place for place in present if len(place) == 1]
    return next((found[0] for found in (present, top) if len(found) == 1), None)


def expanded_section(layout: Layout, path: list[str], given: Any) -> Any:
    """Return the section (or None, for one that may be null) that is meant; the value itself where none is certain."""
    key, known = ".".join(path), layout.known_keys(path)
    if isinstance(given, str):
        named = _by_name(layout, path, given.strip())
        if named is not None:
            return named
        word = given.strip().lower()
        given = False if word in NOTHING else FLAGS.get(word, given.strip())
    if isinstance(given, bool):
        return _switched(layout, path, known, on=given)
    if key == "data.split" and isinstance(given, list):
        return _shares(given)
    fields = layout.models_at(path)[0].model_fields if len(layout.models_at(path)) == 1 else {}
    needed = [name for name, about in fields.items() if about.is_required()]
    main = MAIN.get(key) or (needed[0] if len(needed) == 1 else None)
    is_number_for_name = not isinstance(given, str) and main is not None and layout.names_at([*path, main])
    if main is None or isinstance(given, dict) or is_number_for_name:
        return given
    rule = layout.rule_at([*path, main])
    value = coerced(rule, given)
    return {main: value} if fits(rule, value) else given


def _by_name(layout: Layout, path: list[str], given: str) -> dict[str, Any] | None:
    """Return the section that a bare name means: a form's, a built-in part's, a library's, or user code."""
    if library := from_library(".".join(path), given):
        section: dict[str, Any] = {}
        for key, value in library.items():
            put(section, tuple(key.split("."))[1:], value)
        return section
    main = MAIN.get(".".join(path))
    if main is not None and (name := our_name(given, fixed_values(layout.rule_at([*path, main])))) is not None:
        return {main: name}
    forms, has_use = layout.forms(path), "use" in layout.known_keys(path)
    if has_use and ":" in given:
        return {"use": given}
    if forms:
        name = our_name(given, forms)
        return {"name": name} if name is not None else None
    return {"use": given} if has_use and given.lower() not in {*FLAGS, *NOTHING} else None


def _switched(layout: Layout, path: list[str], known: list[str], *, on: bool) -> Any:
    """Return the section that is on, or off; a flag switches on a section that needs no other key."""
    if "enabled" in known:
        return {"enabled": on}
    if not on:
        return None if layout.may_be_null(path) else OFF.get(".".join(path), on)
    models = layout.models_at(path)
    needs_nothing = len(models) == 1 and not any(about.is_required() for about in models[0].model_fields.values())
    return {} if needs_nothing and layout.may_be_null(path) else on


def _shares(given: list[Any]) -> Any:
    """Return a split of [train, validation, test], where the three are all of the data."""
    shares = coerced(list[float], given)
    total = sum(shares) if fits(list[float], shares) else 0.0
    if len(shares) != 3 or not (math.isclose(total, 1.0) or math.isclose(total, 100.0)):
        return given
    return {"validation": round(shares[1] / total, 12), "test": round(shares[2] / total, 12)}
