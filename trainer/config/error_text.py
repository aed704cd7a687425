"""Error text of a configuration, in the words of its keys: value, rule, and the nearest valid key."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from trainwright.trainer.base.errors import near
from trainwright.trainer.base.section import ImpossibleError
from trainwright.trainer.catalog.names import UnknownNameError, from_library
from trainwright.trainer.config.explained_ranges import broken_range
from trainwright.trainer.config.key_aliases import is_section, known_elsewhere, schema_keys
from trainwright.trainer.config.meant_values import as_meant, fits, fixed_values
from trainwright.trainer.config.problem import Problem, as_yaml, plain_yaml
from trainwright.trainer.config.schema_index import DEFAULT_FORMS, Layout

_SECTION_NEEDED = {"model_type", "model_attributes_type", "dict_type", "union_tag_not_found"}
UNTOLD = "…"
MOST_MEANT = 3
_OF_A_UNION = {"string_type", "model_type", "int_type", "float_type", "list_type", "literal_error"}
"""Complaints of a union's member that the value does not even resemble."""


def explain_all(found: list[Any], values: dict[str, Any]) -> list[Problem]:
    """Return one problem per broken key: of a union's complaints, those of the member that was meant.

    Args:
        found: the errors of pydantic; unknown keys first read best.
        values: the configuration that they were found in.
    """
    layout = Layout(values)
    keys = [".".join(layout.location(problem["loc"])) for problem in found]
    problems: dict[str, Problem] = {}
    for problem, key in zip(found, keys, strict=True):
        deeper = any(other.startswith(f"{key}.") for other in keys)
        if not (deeper and problem["type"] in _OF_A_UNION):
            rivals = [other for other, its in zip(found, keys, strict=True) if its == key and other is not problem]
            problems.setdefault(key or str(problem["msg"]), _explain(problem, rivals, layout))
    return list(problems.values())


def _explain(problem: Any, rivals: list[Any], layout: Layout) -> Problem:
    location, given, kind = layout.location(problem["loc"]), problem.get("input"), problem["type"]
    key = ".".join(location)
    if location[:2] == ["search", "space"] and len(location) > 2:
        return broken_range(problem, location, given, layout)
    if kind == "extra_forbidden":
        return _unknown_key(location, given, layout, tags=[str(part) for part in problem["loc"]])
    if kind == "missing":
        return Problem(key, f"`{key}` is required, and missing")
    if kind.startswith("union_tag") and isinstance(given, dict):
        return _unknown_form(key, given, layout)
    if kind in _SECTION_NEEDED and layout.models_at(location) and not isinstance(given, dict):
        return _no_section(location, given, layout)
    return _broken_rule(problem, rivals, key, layout)


def _broken_rule(problem: Any, rivals: list[Any], key: str, layout: Layout) -> Problem:
    reason, given = str(problem["msg"]).removeprefix("Value error, "), problem.get("input")
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, UnknownNameError) and not key:
        return _unknown_name(cause, given)
    if isinstance(cause, ImpossibleError):
        first, *others = cause.ways
        return Problem(key, f"`{key}`: {reason}" if key else reason, first, tuple(others))
    if not key:
        return Problem("", reason)
    if problem["type"] == "list_type" and not rivals and isinstance(given, str | int | float):
        return Problem(key, f"`{key}` = {as_yaml(given)}: a list is needed", {key: [given]})
    if rivals and problem["type"] in _OF_A_UNION:
        reason = " or ".join(dict.fromkeys([reason, *(str(other["msg"]) for other in rivals)]))
    mended = _nearest_value(problem, given, layout.rule_at(key.split(".")))
    return Problem(key, f"`{key}` = {as_yaml(given)}: {_plain(reason)}", {key: mended})


def _nearest_value(problem: Any, given: Any, rule: Any) -> Any:
    """Return the value nearest to one that is refused; None where it is best left out."""
    context = problem.get("ctx", {})
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if problem["type"] == "greater_than_equal":
        return context["ge"]
    if problem["type"] == "less_than_equal":
        return context["le"]
    if problem["type"] in {"int_type", "int_from_float"} and is_number:
        return round(given)
    names = fixed_values(rule) if rule is not None else []
    return next(iter(near(given, names, cutoff=0.7)), None) if isinstance(given, str) else None


def _plain(reason: str) -> str:
    """Return pydantic's wording without the names of our classes and of Python's types."""
    words = re.sub(r"a valid dictionary or instance of \w+|a valid dictionary", "a section of keys", reason)
    return words.replace("valid tuple", "valid list").replace(" or Input should be ", " or ")


def _unknown_key(location: list[str], given: Any, layout: Layout, tags: list[str]) -> Problem:
    """Tell what is known instead; of a section of several forms, the keys of the form that was chosen."""
    *parents, last = location
    key, forms = ".".join(location), layout.forms(parents)
    chosen = next((tag for tag in tags if tag in forms), None)
    known = sorted(forms[chosen].model_fields) if chosen is not None else layout.known_keys(parents)
    owners = [form for form, model in forms.items() if last in model.model_fields]
    if chosen is not None and owners:
        taken = f"`{key}` is not taken by {chosen}, only by {', '.join(owners)}; {chosen} takes {', '.join(known)}"
        return Problem(key, taken, {key: None})
    alike = [".".join([*parents, name]) for name in near(last, known, most=MOST_MEANT)]
    meant = known_elsewhere(last) or alike or _alike_elsewhere(last)
    if not 0 < len(meant) <= MOST_MEANT:
        return Problem(key, f"unknown key `{key}`; known: {', '.join(known) or 'none'}", {key: None})
    meant.sort(key=lambda name: (not _fits(name, given, layout), not layout.is_taken(name.split("."))))
    fits = isinstance(given, dict) or not is_section(meant[0])
    text = f"unknown key `{key}`; did you mean {' or '.join(f'`{name}`' for name in meant)}?"
    others = tuple({key: None, name: given} for name in meant[1:])
    return Problem(key, text, {key: None, meant[0]: given} if fits else {key: None}, others)


def _fits(key: str, given: Any, layout: Layout) -> bool:
    rule = layout.rule_at(key.split("."))
    return rule is None or fits(rule, as_meant(rule, given))


def _alike_elsewhere(name: str) -> list[str]:
    """Return the keys of other sections whose name is almost the same."""
    leaves = {key.rpartition(".")[2] for key in schema_keys()}
    return [key for leaf in near(name, leaves, cutoff=0.8) for key in known_elsewhere(leaf)]


def _unknown_name(error: UnknownNameError, values: dict[str, Any]) -> Problem:
    """Put the near name where the unknown one stood: in a list, under `use`, or as the value itself."""
    part = error.key.partition(".")[0]
    key, given = error.key, values.get(part)
    library = from_library(error.key, error.name)
    if library:
        return Problem(key, str(error), library)
    if error.near is None and not isinstance(given, list):
        return Problem(key, str(error), {key: None})
    if isinstance(given, list):
        mended = [_renamed(item, error) for item in given]
        return Problem(key, str(error), {key: [item for item in mended if item is not None]})
    is_whole = key == "loss" and not isinstance(given, dict)
    return Problem(key, str(error), {key if is_whole or key.endswith(".use") else f"{key}.use": error.near})


def _renamed(item: Any, error: UnknownNameError) -> Any:
    if isinstance(item, dict) and item.get("use") == error.name:
        return None if error.near is None else {**item, "use": error.near}
    return error.near if item == error.name else item


def _unknown_form(key: str, given: dict[str, Any], layout: Layout) -> Problem:
    """Return the names among which a section is chosen, for one that names none of them."""
    known, name = list(layout.forms([key])), given.get("name")
    meant = near(str(name), known, cutoff=0.6)
    hint = f"; did you mean `{meant[0]}`?" if meant else ""
    text = f"`{key}.name` = {as_yaml(name)}: must be one of {', '.join(known)}{hint}"
    return Problem(key, text, {f"{key}.name": meant[0]} if meant else {key: None})


def _no_section(location: list[str], given: Any, layout: Layout) -> Problem:
    """Say how a section is written: switched on by its keys, and off by null."""
    key, forms = ".".join(location), layout.forms(location)
    if layout.is_mapping(location):
        return Problem(key, f"`{key}` = {as_yaml(given)}: a mapping of names to sections is needed")
    example = _example(key, given, layout.models_at(location), list(forms))
    written = ", ".join(f"{name}: {plain_yaml(value)}" for name, value in example.items())
    text = f"`{key}` = {as_yaml(given)}: a section is needed, for example {{{written}}}"
    if layout.may_be_null(location):
        text += ", or null for none" if example else " for the defaults, or null for none"
        if given is False:
            return Problem(key, text, {key: None})
    known = f"its names: {', '.join(forms)}" if forms else f"its keys: {', '.join(layout.known_keys(location))}"
    return Problem(key, f"{text}; {known}", {key: None if UNTOLD in example.values() or not example else example})


def _example(key: str, given: Any, models: list[type[BaseModel]], forms: list[str]) -> dict[str, Any]:
    """Return a small section: what was meant by a bare name or flag, else its form's name or what it cannot lack."""
    if key in DEFAULT_FORMS:
        return {"name": given if given in forms else DEFAULT_FORMS[key]}
    fields = models[0].model_fields
    if isinstance(given, bool) and "enabled" in fields:
        return {"enabled": given}
    if isinstance(given, str) and "use" in fields:
        return {"use": given}
    return {name: _first(about.annotation) for name, about in fields.items() if about.is_required()}


def _first(annotation: Any) -> Any:
    """Return the first of a key's fixed values, where it has some."""
    return get_args(annotation)[0] if get_origin(annotation) is Literal else UNTOLD
