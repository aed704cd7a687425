"""Laying changes over a configuration as it is meant: sections merge, and what belonged to another choice goes."""

from __future__ import annotations

from typing import Any

from trainwright.trainer.config.reading import apply_changes, flatten, parse_config, parse_dotted_key
from trainwright.trainer.errors import ConfigurationError

CHOOSING = ("use", "name")
"""Keys that say what a section is: its `args`, and the options that only the former took, go with another value."""
WHOLE = frozenset({"search.space"})
"""Mappings that are one value."""


def merge_changes(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return `values` with the changes laid over them; None removes a key. The result is not checked.

    A mapping is merged into the section that it names, as `{"optimizer": {"learning_rate": 0.01}}` and
    `{"optimizer.learning_rate": 0.01}` say the same.

    Raises:
        ConfigurationError: a key that is not dotted or goes through a single value, or a value that is not plain.
    """
    tree: dict[str, Any] = {}
    for key, value in changes.items():
        apply_changes(values, {key: value})  # refuses what is no change at all
        *parents, last = parse_dotted_key(key)
        section = tree
        for parent in parents:
            section = section.setdefault(parent, {})
            if not isinstance(section, dict):
                raise ConfigurationError(
                    f"`{parent}` is changed as a whole, and `{key}` in it as well.", remedy=f"Give `{parent}` once."
                )
        both = isinstance(value, dict) and isinstance(section.get(last), dict)
        section[last] = _merged(section[last], value, key, []) if both else value
    chosen: list[str] = []
    merged = _merged(values, tree, "", chosen)
    return _without_leftovers(merged, chosen, set(flatten(tree)))


def _merged(old: dict[str, Any], new: dict[str, Any], path: str, chosen: list[str]) -> dict[str, Any]:
    result = dict(old)
    if path and any(key in new and key in old and new[key] != old[key] for key in CHOOSING):
        result.pop("args", None)
        chosen.append(path)
    for key, value in new.items():
        name = f"{path}.{key}" if path else key
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            below = result.get(key) if name not in WHOLE else None
            result[key] = _merged(below if isinstance(below, dict) else {}, value, name, chosen)
        else:
            result[key] = value
    return result


def _without_leftovers(values: dict[str, Any], chosen: list[str], given: set[str]) -> dict[str, Any]:
    """Take out the options of former choices that the new ones do not take."""
    if not chosen:
        return values
    try:
        parse_config(values)
    except ConfigurationError as error:
        wrong = [key for key, value in error.details.get("changes", {}).items() if value is None and key not in given]
        left = [key for key in wrong if any(key.startswith(f"{section}.") for section in chosen)]
        return apply_changes(values, dict.fromkeys(left))
    return values
