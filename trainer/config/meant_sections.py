"""A bare name, flag or number where a section is needed, taken as the section that is meant."""

from __future__ import annotations

import math
from typing import Any

from trainwright.trainer.config.elsewhere import our_name
from trainwright.trainer.config.layout import Layout
from trainwright.trainer.config.libraries import from_library
from trainwright.trainer.config.meant_values import FLAGS, NOTHING, as_meant, fits, fixed_values

SPLIT = ["data", "split"]
OFF = {"schedule": {"name": "constant"}}
"""Sections that cannot be null, and what stands for having none."""


def section_as_meant(layout: Layout, path: list[str], given: Any) -> Any:
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
    """A flag switches on what needs nothing else to be said."""
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
    value = as_meant(rule, given)
    return {needed[0]: value} if fits(rule, value) else given


def _shares(given: list[Any]) -> Any:
    """Return a split of [train, validation, test], where the three are all of the data."""
    shares = [as_meant(float, one) for one in given]
    are_numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in shares)
    if not are_numbers or len(shares) != 3:
        return given
    total = sum(shares)
    if not math.isclose(total, 1.0) and not math.isclose(total, 100.0):
        return given
    return {"validation": round(shares[1] / total, 12), "test": round(shares[2] / total, 12)}
