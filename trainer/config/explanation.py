"""What broke in a configuration, in the words of its keys: value, rule, and the nearest valid key."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from trainwright.trainer.config.elsewhere import is_section, known_elsewhere
from trainwright.trainer.config.layout import DEFAULT_FORMS, Layout
from trainwright.trainer.config.names import UnknownNameError

_SECTION_NEEDED = {"model_type", "model_attributes_type", "dict_type", "union_tag_not_found"}
UNTOLD = "…"
MOST_MEANT = 3
_OF_A_UNION = {"string_type", "model_type", "int_type", "float_type", "list_type", "literal_error"}
"""Complaints of a union's member that the value does not even resemble."""


@dataclass(frozen=True)
class Problem:
    """One broken key."""

    key: str
    """Dotted; empty for a rule between sections."""
    text: str
    """Key, value, rule, and the nearest valid key."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Dotted changes that would mend it, where some are at hand; None takes a key out."""


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
    if kind == "extra_forbidden":
        return _unknown_key(location, given, layout, tags=[str(part) for part in problem["loc"]])
    if kind == "missing":
        return Problem(key, f"`{key}` is required, and missing")
    if kind.startswith("union_tag") and isinstance(given, dict):
        return _unknown_form(key, given, layout) if key in DEFAULT_FORMS else _unknown_type(key, given)
    if kind in _SECTION_NEEDED and layout.models_at(location) and not isinstance(given, dict):
        return _no_section(location, given, layout)
    return _broken_rule(problem, rivals, key, layout)


def _broken_rule(problem: Any, rivals: list[Any], key: str, layout: Layout) -> Problem:
    reason, given = str(problem["msg"]).removeprefix("Value error, "), problem.get("input")
    if not key:
        unknown = problem.get("ctx", {}).get("error")
        return _unknown_name(unknown, given) if isinstance(unknown, UnknownNameError) else Problem("", reason)
    if problem["type"] == "list_type" and not rivals and isinstance(given, str | int | float):
        return Problem(key, f"`{key}` = {_shown(given)}: a list is needed", {key: [given]})
    if rivals and problem["type"] in _OF_A_UNION:
        reason = " or ".join(dict.fromkeys([reason, *(str(other["msg"]) for other in rivals)]))
    default = layout.default_at(key.split("."))
    return Problem(key, f"`{key}` = {_shown(given)}: {_plain(reason)}", {} if default is None else {key: default})


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
    near = [".".join([*parents, name]) for name in difflib.get_close_matches(last, known, n=1, cutoff=0.6)]
    meant = known_elsewhere(last) or near
    if not 0 < len(meant) <= MOST_MEANT:
        return Problem(key, f"unknown key `{key}`; known: {', '.join(known) or 'none'}", {key: None})
    fits = len(meant) == 1 and (isinstance(given, dict) or not is_section(meant[0]))
    text = f"unknown key `{key}`; did you mean {' or '.join(f'`{name}`' for name in meant)}?"
    return Problem(key, text, {key: None, meant[0]: given} if fits else {key: None})


def _unknown_name(error: UnknownNameError, values: dict[str, Any]) -> Problem:
    """Put the near name where the unknown one stood: in a list, under `use`, or as the value itself."""
    key, given = error.key, values.get(error.key)
    if error.near is None:
        return Problem(key, str(error))
    if isinstance(given, list):
        mended: Any = [error.near if item == error.name else item for item in given]
        return Problem(key, str(error), {key: mended} if mended != given else {})
    return Problem(key, str(error), {f"{key}.use" if isinstance(given, dict) else key: error.near})


def _unknown_type(key: str, given: dict[str, Any]) -> Problem:
    """Say how a range of a search is written."""
    forms = (
        "{type: float, low: …, high: …, log: true}, {type: int, low: …, high: …} or {type: categorical, choices: […]}"
    )
    return Problem(key, f"`{key}` = {_shown(given)}: a range is {forms}")


def _unknown_form(key: str, given: dict[str, Any], layout: Layout) -> Problem:
    """Return the names among which a section is chosen, for one that names none of them."""
    known, name = list(layout.forms([key])), given.get("name")
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    text = f"`{key}.name` = {_shown(name)}: must be one of {', '.join(known)}{hint}"
    return Problem(key, text, {f"{key}.name": near[0] if near else DEFAULT_FORMS[key]})


def _no_section(location: list[str], given: Any, layout: Layout) -> Problem:
    """Say how a section is written: switched on by its keys, and off by null."""
    key, forms = ".".join(location), layout.forms(location)
    if layout.is_mapping(location):
        return Problem(key, f"`{key}` = {_shown(given)}: a mapping of names to sections is needed")
    example = _example(key, given, layout.models_at(location), list(forms))
    written = ", ".join(f"{name}: {_yaml(value)}" for name, value in example.items())
    text = f"`{key}` = {_shown(given)}: a section is needed, for example {{{written}}}"
    if layout.may_be_null(location):
        text += ", or null for none" if example else " for the defaults, or null for none"
        if given is False:
            return Problem(key, text, {key: None})
    known = f"its names: {', '.join(forms)}" if forms else f"its keys: {', '.join(layout.known_keys(location))}"
    return Problem(key, f"{text}; {known}", {} if UNTOLD in example.values() else {key: example})


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


def _yaml(value: Any) -> str:
    return {True: "true", False: "false", None: "null"}.get(value, str(value))


def _shown(value: Any) -> str:
    """Return a value as it is written in YAML, cut to 60 characters."""
    text = _yaml(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
