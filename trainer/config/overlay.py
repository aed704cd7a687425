"""Changes laid over a configuration: where they go, and what of the old one a new form no longer takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.problem import OVERVIEW
from trainwright.trainer.config.schema_index import DEFAULT_FORMS, Layout

Path = tuple[str, ...]
MOST_SHOWN = 100
MOST_PARTS = 8
OWN = "own"
"""Form of a section that the user's own part makes, whatever name stands beside its `use`."""
PARTS = ("model", "data", "loss", "curriculum")
"""Sections whose `args` belong to what `use` names."""


def split_key(key: str) -> Path:
    """Split `optimizer.learning_rate` into its parts. Raises ConfigurationError on an empty part."""
    parts = tuple(part.strip() for part in key.split("."))
    if not all(parts) or len(parts) > MOST_PARTS:
        raise ConfigurationError(
            f"`{key[:80]}` is not a dotted key.",
            remedy="Name the key from the top, for example `optimizer.learning_rate`.",
            document=OVERVIEW,
        )
    return parts


def laid_over(base: dict[str, Any], leaves: dict[Path, Any]) -> dict[str, Any]:
    """Return a copy of `base` with the leaves laid over it; those that hold others come first."""
    result: dict[str, Any] = copied(base)
    for path in sorted(leaves, key=len):
        put(result, path, leaves[path])
    return result


def put(values: dict[str, Any], path: Path, value: Any) -> None:
    """Set the value at a path in place, or take it out where it is None.

    Raises:
        ConfigurationError: the path goes through a single value.
    """
    *parents, last = path
    for place, parent in enumerate(parents):
        inner = values.get(parent)
        if not isinstance(inner, dict):
            if value is None:
                return
            inner = values[parent] = _opened(inner, path, place)
        values = inner
    if value is None:
        values.pop(last, None)
    else:
        values[last] = copied(value)


def _opened(given: Any, path: Path, place: int) -> dict[str, Any]:
    """Return the section that stands for nothing, or for the bare name of a loss."""
    if given is None:
        return {}
    if isinstance(given, str) and path[place] == "loss":
        return {"use": given}
    parent = path[place]
    raise ConfigurationError(
        f"`{'.'.join(path)}` goes through `{parent}`, which holds a single value.",
        remedy=f'Set `{parent}` as a whole, for example {{"{parent}": {{...}}}}.',
        document=OVERVIEW,
        details={"changes": {".".join(path): None}},
    )


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping by dotted key, as `apply_changes` takes them; lists stay whole."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        flat |= flatten(value, f"{name}.") if isinstance(value, dict) and value else {name: value}
    return flat


def left_over(base: dict[str, Any], new: dict[str, Any], given: dict[Path, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the keys of `base` that the form or part chosen by now does not take, each with a sentence.

    Args:
        given: what this call asks for by itself: it is never left out without being refused.
    """
    layout = Layout(new)
    for section, default in DEFAULT_FORMS.items():
        old, now = base.get(section), new.get(section)
        if isinstance(old, dict) and isinstance(now, dict):
            before, name = (
                _form(old, default, ()),
                _form(now, default, [path[1:] for path in given if path[0] == section]),
            )
            form = layout.forms([section]).get(name)
            if form is not None and before != name:
                known = set(form.model_fields) - ({"name"} if name == OWN else set())
                yield from _not_taken(old, (section,), known, name, given)
    for section in PARTS:
        old, now = base.get(section), new.get(section)
        if isinstance(old, dict) and isinstance(now, dict) and old.get("use") != now.get("use"):
            args, use = old.get("args"), now.get("use")
            if isinstance(args, dict) and not any(path[:2] == (section, "args") for path in given):
                yield (section, "args"), f"{section}.args {shown(args)} of before left out: {use} has its own"
            elif isinstance(args, dict):
                yield from _not_taken(args, (section, "args"), set(), str(use), given)


def _form(values: dict[str, Any], default: str, given: Iterable[Path]) -> str:
    """Return the form that a section has; one that is named anew is not the user's own any more."""
    named = {path[0] for path in given if path}
    is_own = values.get("use") is not None and not ("name" in named and "use" not in named)
    return OWN if is_own else str(values.get("name", default))


def _not_taken(
    old: dict[str, Any], path: Path, known: set[str], form: str, given: dict[Path, Any]
) -> Iterator[tuple[Path, str]]:
    for key, value in old.items():
        place = (*path, key)
        if key not in known and not any(one[: len(place)] == place for one in given):
            yield place, f"{'.'.join(place)} {shown(value)} of before left out: {form} does not take it"


def shown(value: Any) -> str:
    """Return a value as JSON, cut to 100 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


def equal(one: Any, other: Any) -> bool:
    """Return whether two values are the same as JSON, 1 and 1.0 and true told apart."""
    return json.dumps(one, default=str) == json.dumps(other, default=str)


def copied(value: Any) -> Any:
    """Return a deep copy of plain values."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value
