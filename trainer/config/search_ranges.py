"""Ranges of a search in other libraries' words, read as ours where only one reading fits."""

from __future__ import annotations

import re
from typing import Any

from trainwright.trainer.base.errors import folded
from trainwright.trainer.config.key_aliases import our_name, renamed
from trainwright.trainer.config.value_coercion import coerced, fits, from_text, number_in

KEYS = {
    "type": ("distribution", "dist", "kind", "name", "prior", "sampling"),
    "low": ("min", "minimum", "lower", "from", "start", "lb", "min_value", "lower_bound", "a"),
    "high": ("max", "maximum", "upper", "to", "end", "stop", "ub", "max_value", "upper_bound", "b"),
    "log": ("log_scale", "logarithmic", "log_uniform", "is_log", "scale"),
    "choices": ("values", "options", "categories", "choice", "grid"),
    "step": ("q", "increment", "step_size"),
    "points": ("num", "n_points", "grid_points"),
    "when": ("condition", "conditions", "depends_on", "active_if", "parent"),
}
"""Our key of a range to its aliases."""
BOTH = ("range", "bounds", "interval", "limits")
"""Aliases of both ends in one list."""
SCALES = {"log": True, "log10": True, "linear": False}
TYPES = ("float", "int", "categorical")
BETWEEN = re.compile(r"\.\.+|[\s,()\[\]]+")
"""What stands between the words and numbers of a range in running text."""
JOINING = {"to", "from", "between", "and"}


def expanded_range(given: Any, rule: Any = None) -> Any:
    """Return the range that is meant; the input itself if it has several readings, as `[0.1, 0.2]` has.

    Args:
        rule: annotation of the key that is searched over, where the schema knows it.
    """
    read = from_text(given) if isinstance(given, str) else given
    if isinstance(read, str):
        read = _of_words([part.strip("'\"") for part in BETWEEN.split(read) if part])
    elif isinstance(read, list):
        in_words = _of_words(read) if read and isinstance(read[0], str) else None
        read = in_words or _choices(read)
    return _typed(_our_keys(read), rule) if isinstance(read, dict) else given


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


def _of_words(words: list[Any]) -> dict[str, Any] | None:
    """Read `loguniform(1e-4, 0.1)`, `1e-4 to 0.1 (log)` and `["choice", 16, 32]`, taken apart."""
    numbers = [number for word in words if (number := number_in(str(word))) is not None]
    kinds = [str(word).rpartition(".")[2] for word in words if number_in(str(word)) is None and word not in JOINING]
    if kinds and our_name(kinds[0], TYPES) == "categorical":
        rest = words[1:]
        return {"type": "categorical", "choices": rest[0] if len(rest) == 1 and isinstance(rest[0], list) else rest}
    types = [kind for kind in kinds if our_name(kind, TYPES)]
    logs = [kind for kind in kinds if kind not in types and "=" not in kind and _is_log(kind)]
    said = [kind.lower() for kind in kinds if kind.lower() in {"log=true", "log=false"}]
    scales = {True for _ in logs} | {one == "log=true" for one in said}
    if len(numbers) != 2 or len(types) + len(logs) + len(said) != len(kinds) or len(scales) > 1:
        return None
    found = {"low": numbers[0], "high": numbers[1], **dict.fromkeys(["log"] * len(scales), True in scales)}
    return {"type": (types or logs)[0], **found} if types or logs else found


def _choices(given: list[Any]) -> dict[str, Any] | None:
    """Return the choices that a list can only be; two numbers may be the ends of a range too."""
    are_numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in given)
    return None if len(given) < 2 or (len(given) == 2 and are_numbers) else {"type": "categorical", "choices": given}


def _our_keys(given: dict[str, Any]) -> dict[str, Any]:
    found = renamed(given, KEYS)
    for key in BOTH:
        if isinstance(found.get(key), list) and len(found[key]) == 2:
            found["low"], found["high"] = found.pop(key)
    if "log" in found:
        found["log"] = SCALES.get(str(found["log"]).lower(), found["log"])
    return found


def _typed(values: dict[str, Any], rule: Any) -> dict[str, Any]:
    """Name the range's type where its other keys, or the key it is for, leave only one."""
    kind = values.get("type")
    if isinstance(kind, str) and _is_log(kind):
        values |= {"type": "int" if "int" in folded(kind) else "float", "log": values.get("log", True)}
    elif isinstance(kind, str):
        values["type"] = our_name(kind, TYPES) or kind
    elif "choices" in values:
        values["type"] = "categorical"
    elif {"low", "high"} <= values.keys():
        values["type"] = _type_of_ends([coerced(int, values["low"]), coerced(int, values["high"])], rule)
    number = float if values.get("type") == "float" else int
    read = {"low": number, "high": number, "step": number, "log": bool}
    values |= {key: coerced(read[key], values[key]) for key in read if key in values}
    if isinstance(values.get("choices"), list) and rule is not None:
        values["choices"] = [coerced(rule, one) for one in values["choices"]]
    if values.get("type") == "categorical" and values.get("log") is False:
        values.pop("log")
    return {key: values[key] for key in (*(k for k in KEYS if k in values), *(k for k in values if k not in KEYS))}


def _type_of_ends(ends: list[Any], rule: Any) -> str:
    if rule is None:
        return "int" if all(isinstance(one, int) and not isinstance(one, bool) for one in ends) else "float"
    return "float" if fits(rule, 0.5) or fits(rule, 1.5) else "int"


def _is_log(kind: str) -> bool:
    return "log" in folded(kind) or folded(kind) == "reciprocal"
