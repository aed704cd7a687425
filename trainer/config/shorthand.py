"""Shorthand in a configuration: where a key belongs, and the section or range that a bare value means."""

from __future__ import annotations

import math
import re
from typing import Any

from trainwright.trainer.base.errors import folded, same
from trainwright.trainer.catalog.names import from_library
from trainwright.trainer.config.key_aliases import (
    SECTION_NAME,
    SWITCHES,
    WRAPPED,
    called_elsewhere,
    may_be_meant,
    our_name,
    schema_keys,
)
from trainwright.trainer.config.schema_index import DEFAULT_FORMS, Layout
from trainwright.trainer.config.value_coercion import FLAGS, NOTHING, coerced, fits, fixed_values, from_text, number_in

Path = tuple[str, ...]
GENERAL = {
    *SECTION_NAME, *WRAPPED, "weight", "weights", "r", "budget", "input", "path", "file", "text", "format", "features",
    "enabled", "patterns", "method", "low", "high", "log", "choices", "model", "outputs", "size", "every_n_epochs",
}  # fmt: skip
"""Words that mean something only in the section that they are in."""


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
        flag = coerced(bool, value)
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
    """Return the place of a key that wraps arguments, or of an argument of user code."""
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
    """Return whether a wrapping word is a name of the section itself, as `params` is of a search."""
    return any(tuple(key.split(".")[:-1]) == path for key in called_elsewhere(part))


def _elsewhere(layout: Layout, path: Path, part: str) -> Path | None:
    """Return the one place in another section that the word can mean under the forms that are chosen."""
    if part in GENERAL:
        return None
    keys = [key for key in schema_keys() if folded(key.rpartition(".")[2]) == folded(part)]
    keys += [f"{of}.args.{part}" for of in ("model", "data", "loss")]
    keys = [key for key in keys if may_be_meant(key, path)]
    places = [tuple(key.split(".")) for key in dict.fromkeys([*called_elsewhere(part), *keys])]
    fitting = [place for place in places if place[-1] in layout.known_keys(list(place[:-1]))]
    taken = [place for place in fitting if layout.is_taken(list(place))] or (
        fitting if path == () and len(fitting) == 1 else []
    )
    present = [place for place in taken if layout.is_present(list(place[:-1]))] or taken
    top = [place for place in present if len(place) == 1]
    return next((found[0] for found in (present, top) if len(found) == 1), None)


SPLIT = ["data", "split"]
OFF = {"schedule": {"name": "constant"}}
"""Sections that cannot be null, and the value that means none."""


def expanded_section(layout: Layout, path: list[str], given: Any) -> Any:
    """Return the section (or None, for one that may be null) that is meant; the value itself where none is certain."""
    if isinstance(given, str):
        word = given.strip().lower()
        given = FLAGS.get(word, given.strip())
        named = _named(layout, path, given) if isinstance(given, str) else given
        is_off = word in NOTHING and not (isinstance(named, dict) and "use" not in named)
        given = False if is_off else named
    if isinstance(given, bool):
        return _on(layout, path, given) if given else _off(layout, path, given)
    if isinstance(given, dict):
        return given
    if path == SPLIT and isinstance(given, list):
        return _shares(given)
    if path == ["early_stopping"] and isinstance(given, int | float) and given > 0:
        return {"patience_epochs": given}
    return _by_only_key(layout, path, given)


def _off(layout: Layout, path: list[str], given: Any) -> Any:
    if "enabled" in layout.known_keys(path):
        return {"enabled": False}
    return None if layout.may_be_null(path) else OFF.get(".".join(path), given)


def _on(layout: Layout, path: list[str], given: Any) -> Any:
    """A flag switches on a section that needs no other key."""
    if "enabled" in layout.known_keys(path):
        return {"enabled": True}
    models = layout.models_at(path)
    needs_nothing = len(models) == 1 and not any(about.is_required() for about in models[0].model_fields.values())
    return {} if needs_nothing and layout.may_be_null(path) else given


def _named(layout: Layout, path: list[str], given: str) -> Any:
    known, forms = layout.known_keys(path), layout.forms(path)
    library = from_library(".".join(path), given)
    if library:
        return _nested(library)
    if ":" in given and "use" in known:
        return {"use": given}
    if forms:
        name = our_name(given, forms)
        return given if name is None else {"name": name}
    if "use" in known:
        return {"use": given}
    for key in known:
        rule = layout.rule_at([*path, key])
        name = our_name(given, fixed_values(rule)) if rule is not None else None
        if name is not None:
            return {key: name}
    return _by_only_key(layout, path, given)


def _nested(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the section that changes below it make: `model.use` and `model.args.model`, for example."""
    section: dict[str, Any] = {}
    for key, value in changes.items():
        _, *inner = key.split(".")
        if value is not None:
            holder = section.setdefault(inner[0], {}) if len(inner) > 1 else section
            holder[inner[-1]] = value
    return section


def _by_only_key(layout: Layout, path: list[str], given: Any) -> Any:
    """Return the section of which only one key must be given, with the value for that key."""
    models = layout.models_at(path)
    if len(models) != 1 or isinstance(given, dict):
        return given
    needed = [key for key, about in models[0].model_fields.items() if about.is_required()]
    rule = layout.rule_at([*path, needed[0]]) if len(needed) == 1 else None
    if rule is None or (layout.names_at([*path, needed[0]]) and not isinstance(given, str)):
        return given
    value = coerced(rule, given)
    return {needed[0]: value} if fits(rule, value) else given


def _shares(given: list[Any]) -> Any:
    """Return a split of [train, validation, test], where the three are all of the data."""
    shares = [coerced(float, one) for one in given]
    are_numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in shares)
    if not are_numbers or len(shares) != 3:
        return given
    total = sum(shares)
    if not math.isclose(total, 1.0) and not math.isclose(total, 100.0):
        return given
    return {"validation": round(shares[1] / total, 12), "test": round(shares[2] / total, 12)}


KEYS = {
    "type": ("distribution", "dist", "kind", "name", "prior", "sampling"),
    "low": ("min", "minimum", "lower", "from", "start", "lb", "min_value", "lower_bound", "a"),
    "high": ("max", "maximum", "upper", "to", "end", "stop", "ub", "max_value", "upper_bound", "b"),
    "log": ("log_scale", "logarithmic", "log_uniform", "is_log"),
    "choices": ("values", "options", "categories", "choice", "grid"),
    "step": ("q", "increment", "step_size"),
    "points": ("num", "n_points", "grid_points"),
    "when": ("condition", "conditions", "depends_on", "active_if", "parent"),
}
"""Our key of a range to its aliases."""
BOTH = ("range", "bounds", "interval", "limits")
LOG = {"loguniform", "logfloat", "reciprocal", "floatlog", "log", "loguniformfloat"}
LOG_INT = {"logint", "intlog", "lograndint", "qloguniform", "loguniformint", "intloguniform"}
TYPES = ("float", "int", "categorical")
CALLED = re.compile(r"\s*([A-Za-z_.]+)\s*\((.*)\)\s*", re.DOTALL)
FROM_TO = re.compile(r"\s*([^\s,]+?)\s*(?:\.\.+|\bto\b)\s*([^\s,]+?)\s*(?:,?\s*\(?(log)\)?)?\s*")


def expanded_range(given: Any, rule: Any = None) -> Any:
    """Return the range that is meant; the input itself if it has several readings, as `[0.1, 0.2]` has.

    Args:
        rule: annotation of the key that is searched over, where the schema knows it.
    """
    if isinstance(given, str):
        read = _from_text(given)
        return given if read is given else expanded_range(read, rule)
    if isinstance(given, list):
        return _from_list(given, rule)
    if not isinstance(given, dict):
        return given
    return _typed(_our_keys(given), rule)


def ranges_by_key(given: Any) -> Any:
    """Return a space that was written as a list of ranges, each with its key beside it, as ranges by key."""
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        return given
    found: dict[str, Any] = {}
    for one in given:
        name = next((one[key] for key in ("key", "name", "parameter", "param", "path") if key in one), None)
        if not isinstance(name, str) or name in found:
            return given
        found[name] = {key: value for key, value in one.items() if value is not name}
    return found


def _from_text(given: str) -> Any:
    """Read `loguniform(1e-4, 0.1)`, `1e-4..0.1` and JSON."""
    called, between = CALLED.fullmatch(given), FROM_TO.fullmatch(given)
    if called:
        return [called[1].rpartition(".")[2], *_values(called[2])]
    if between and number_in(between[1]) is not None and number_in(between[2]) is not None:
        return {"low": number_in(between[1]), "high": number_in(between[2])} | ({"log": True} if between[3] else {})
    return from_text(given)


def _values(text: str) -> list[Any]:
    inner = text.strip().strip("[]()")
    parts = [part.strip().strip("'\"") for part in inner.split(",") if part.strip()]
    return [part if (value := number_in(part)) is None else value for part in parts]


def _from_list(given: list[Any], rule: Any) -> Any:
    """Read `["loguniform", low, high]`; of plain lists, those that can only be choices."""
    kind, *rest = given or [None]
    if isinstance(kind, str) and rest and (_is_log(kind) or our_name(kind, TYPES) is not None):
        if our_name(kind, TYPES) == "categorical":
            choices = rest[0] if len(rest) == 1 and isinstance(rest[0], list) else rest
            return {"type": "categorical", "choices": _meant_choices(choices, rule)}
        if len(rest) == 2:
            return expanded_range({"type": kind, "low": rest[0], "high": rest[1]}, rule)
    if len(given) == 2 and all(isinstance(one, int | float) and not isinstance(one, bool) for one in given):
        return given
    return {"type": "categorical", "choices": _meant_choices(given, rule)} if len(given) >= 2 else given


def _our_keys(given: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in given.items():
        ours = next((ours for ours, theirs in KEYS.items() if folded(key) in {ours, *map(folded, theirs)}), key)
        if ours == "type" and ours in found:
            continue
        if folded(key) in BOTH and isinstance(value, list) and len(value) == 2:
            found |= {"low": value[0], "high": value[1]}
        elif folded(key) == "scale" and str(value).lower() in {"log", "linear", "log10"}:
            found["log"] = str(value).lower() != "linear"
        else:
            found[ours] = value
    return found


def _typed(values: dict[str, Any], rule: Any) -> dict[str, Any]:
    """Name the range's type where its other keys, or the key it is for, leave only one."""
    kind = values.get("type")
    if isinstance(kind, str) and _is_log(kind):
        values |= {"type": "int" if folded(kind) in LOG_INT else "float", "log": values.get("log", True)}
    elif isinstance(kind, str):
        values["type"] = our_name(kind, TYPES) or kind
    elif kind is None and "choices" in values:
        values["type"] = "categorical"
    elif kind is None and {"low", "high"} <= values.keys():
        values["type"] = _type_of_ends([values["low"], values["high"]], rule)
    number = float if values.get("type") == "float" else int
    for end in ("low", "high", "step"):
        if end in values:
            values[end] = coerced(number, values[end])
    if "log" in values:
        values["log"] = coerced(bool, values["log"])
    if isinstance(values.get("choices"), list):
        values["choices"] = _meant_choices(values["choices"], rule)
    if values.get("type") == "categorical" and values.get("log") is False:
        values.pop("log")
    first = ("type", "low", "high", "log", "choices", "step", "points", "when")
    return {key: values[key] for key in (*(k for k in first if k in values), *(k for k in values if k not in first))}


def _type_of_ends(ends: list[Any], rule: Any) -> str:
    numbers = [number_in(end) if isinstance(end, str) else end for end in ends]
    are_whole = all(isinstance(one, int) and not isinstance(one, bool) for one in numbers)
    if rule is None:
        return "int" if are_whole else "float"
    return "float" if fits(rule, 0.5) or fits(rule, 1.5) else "int"


def _meant_choices(choices: list[Any], rule: Any) -> list[Any]:
    return choices if rule is None else [coerced(rule, one) for one in choices]


def _is_log(kind: str) -> bool:
    return folded(kind) in LOG | LOG_INT
