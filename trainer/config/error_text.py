"""Error text of a configuration, in the words of its keys: value, rule, and the nearest valid key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from trainwright.trainer.base.errors import near
from trainwright.trainer.base.section import ImpossibleError
from trainwright.trainer.catalog.names import UnknownNameError, from_library
from trainwright.trainer.config.key_aliases import is_section, known_elsewhere, may_be_meant, schema_keys
from trainwright.trainer.config.schema_index import DEFAULT_FORMS, Layout
from trainwright.trainer.config.value_coercion import coerced, fits, fixed_values

OVERVIEW = "configs/README.md"
"""The keys that no other document explains, and where the others are."""
EXPLAINED_IN = {
    "model": "configs/models.md",
    "adapter": "configs/adapters.md",
    "data": "configs/data.md",
    "loss": "configs/losses.md",
    "metrics": "configs/metrics.md",
    "mixing": "configs/losses.md",
    "task": "configs/your_code.md",
    "trainer": "configs/own_trainer.md",
    "returns": "configs/your_code.md",
    "objective": "configs/objective_keys.md",
    "optimizer": "configs/optimizers.md",
    "freezing": "configs/optimizers.md",
    "schedule": "configs/schedules.md",
    "weight_averaging": "configs/averaging.md",
    "curriculum": "configs/curriculum.md",
    "progressive_resizing": "configs/curriculum.md",
    "distributed": "configs/distributed.md",
    "loader.prefetch_factor": "configs/performance.md",
    "loader.persistent_workers": "configs/performance.md",
    "training.precision": "configs/performance.md",
    "training.initial_loss_scale": "configs/performance.md",
    "training.loss_scale_growth_steps": "configs/performance.md",
    "training.gradient_checkpointing": "configs/performance.md",
    "training.compile": "configs/performance.md",
    "training.channels_last": "configs/performance.md",
    "data.split": "configs/splits.md",
    "monitoring": "configs/monitoring.md",
    "search": "configs/searches.md",
}
"""Beginning of a dotted key to the document; the longest one that fits applies, and OVERVIEW where none does."""


def document_for(keys: Sequence[str]) -> str:
    """Return the document that explains the first of these dotted keys."""
    parts = keys[0].split(".") if keys else []
    beginnings = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((EXPLAINED_IN[one] for one in beginnings if one in EXPLAINED_IN), OVERVIEW)


@dataclass(frozen=True)
class Problem:
    """One broken key."""

    key: str
    """Dotted; empty for a rule between sections."""
    text: str
    """Key, value, rule, and the nearest valid key."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Dotted changes that would fix it, if there are any; None removes a key."""
    others: tuple[dict[str, Any], ...] = ()
    """Alternative changes."""


def as_yaml(value: Any) -> str:
    """Return a value as it is written in YAML, cut to 60 characters."""
    text = plain_yaml(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def plain_yaml(value: Any) -> str:
    """Return a flag or null as YAML has it, and anything else as text."""
    is_word = value is None or isinstance(value, bool)
    return {True: "true", False: "false", None: "null"}[value] if is_word else str(value)


KEYS = ("type", "low", "high", "log", "choices", "step", "points", "when")
FORMS = "{type: float, low: …, high: …, log: true}, {type: int, low: …, high: …} or {type: categorical, choices: […]}"
LOG_FROM = 100
"""Ratio of the ends from which a range is searched on a logarithmic scale, where nothing is said."""


def broken_range(problem: Any, location: list[str], given: Any, layout: Layout) -> Problem:
    """Explain how a range of a search is written, with the one that was probably meant.

    Args:
        location: `search`, `space`, the key that is searched over, and a key of the range where one is broken.
    """
    name = location[2]
    key, whole = f"search.space.{name}", layout.value_at(["search", "space", name])
    broken = ".".join([key, *location[3:]])
    reason = str(problem["msg"]).removeprefix("Value error, ")
    if isinstance(whole, list):
        return _of_list(key, whole)
    if not isinstance(whole, dict):
        return Problem(key, f"`{key}` = {as_yaml(whole)}: a range is {FORMS}", {key: None})
    if problem["type"] == "extra_forbidden":
        return _unknown(key, location[-1], whole)
    if problem["type"] == "value_error":
        fixed = _unstepped(key, whole) if reason.startswith("`step`") else _ordered(key, whole)
        return Problem(key, f"`{key}` = {as_yaml(given)}: {reason}", fixed)
    if problem["type"].startswith("union_tag") or problem["type"] == "missing":
        text = f"`{broken}` is required, and missing" if problem["type"] == "missing" else f"`{key}` = {as_yaml(given)}"
        return Problem(broken, f"{text}: a range is {FORMS}", {key: None})
    return Problem(broken, f"`{broken}` = {as_yaml(given)}: {reason}", {key: None})


def _of_list(key: str, whole: list[Any]) -> Problem:
    """Read two numbers as the ends of a range, or as two choices."""
    text = f"`{key}` = {as_yaml(whole)}: a range is {FORMS}"
    if len(whole) != 2 or not all(isinstance(one, int | float) and not isinstance(one, bool) for one in whole):
        return Problem(key, text, {key: None})
    low, high = sorted(whole)
    kind = "int" if isinstance(low, int) and isinstance(high, int) else "float"
    log = {"log": True} if low > 0 and high / low >= LOG_FROM else {}
    either = {"type": "categorical", "choices": whole}
    return Problem(key, text, {key: {"type": kind, "low": low, "high": high, **log}}, ({key: either},))


def _unknown(key: str, last: str, whole: dict[str, Any]) -> Problem:
    free = [name for name in KEYS if name not in whole]
    meant = near(last, free, cutoff=0.6)
    hint = f"did you mean `{key}.{meant[0]}`?" if meant else f"known: {', '.join(KEYS)}"
    fixed = {
        meant[0] if name == last and meant else name: value for name, value in whole.items() if name != last or meant
    }
    return Problem(f"{key}.{last}", f"unknown key `{key}.{last}`; {hint}", {key: fixed})


def _ordered(key: str, whole: dict[str, Any]) -> dict[str, Any]:
    """Put the ends in their order, and take the logarithmic scale from a range that reaches 0."""
    low, high = sorted([whole["low"], whole["high"]])
    log = {"log": False} if whole.get("log") and low <= 0 else {}
    return {key: {**whole, "low": low, "high": high, **log} if low < high else None}


def _unstepped(key: str, whole: dict[str, Any]) -> dict[str, Any]:
    """Take the step from a range that it does not fit."""
    return {key: {name: value for name, value in whole.items() if name != "step"}}


_SECTION_NEEDED = {"model_type", "model_attributes_type", "dict_type", "union_tag_not_found"}
UNKNOWN = "…"
MAX_MEANT = 3
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
    fixed = _nearest_value(problem, given, layout.rule_at(key.split(".")))
    return Problem(key, f"`{key}` = {as_yaml(given)}: {_plain(reason)}", {key: fixed})


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
    names = fixed_values(rule) if rule is not None else re.findall(r"'([^']+)'", str(context.get("expected", "")))
    return next(iter(near(given, names, cutoff=0.7)), None) if isinstance(given, str) else None


def _plain(reason: str) -> str:
    """Return pydantic's wording without the names of our classes and of Python's types."""
    words = re.sub(r"a valid dictionary or instance of \w+|a valid dictionary", "a section of keys", reason)
    return words.replace("valid tuple", "valid list").replace(" or Input should be ", " or ")


def _unknown_key(location: list[str], given: Any, layout: Layout, tags: list[str]) -> Problem:
    """Name the known keys; of a section of several forms, the keys of the form that was chosen."""
    *parents, last = location
    key, forms = ".".join(location), layout.forms(parents)
    chosen = next((tag for tag in tags if tag in forms), None)
    known = sorted(forms[chosen].model_fields) if chosen is not None else layout.known_keys(parents)
    owners = [form for form, model in forms.items() if last in model.model_fields]
    if chosen is not None and owners:
        taken = f"`{key}` is not taken by {chosen}, only by {', '.join(owners)}; {chosen} takes {', '.join(known)}"
        return Problem(key, taken, {key: None})
    alike = [".".join([*parents, name]) for name in near(last, known, most=MAX_MEANT)]
    elsewhere = [name for name in known_elsewhere(last) if may_be_meant(name, parents)]
    meant = elsewhere or alike or _alike_elsewhere(last)
    if not 0 < len(meant) <= MAX_MEANT:
        return Problem(key, f"unknown key `{key}`; known: {', '.join(known) or 'none'}", {key: None})
    meant.sort(key=lambda name: (not _fits(name, given, layout), not layout.is_taken(name.split("."))))
    fits = isinstance(given, dict) or not is_section(meant[0])
    text = f"unknown key `{key}`; did you mean {' or '.join(f'`{name}`' for name in meant)}?"
    others = tuple({key: None, name: given} for name in meant[1:])
    return Problem(key, text, {key: None, meant[0]: given} if fits else {key: None}, others)


def _fits(key: str, given: Any, layout: Layout) -> bool:
    rule = layout.rule_at(key.split("."))
    return rule is None or fits(rule, coerced(rule, given))


def _alike_elsewhere(name: str) -> list[str]:
    """Return the keys of other sections whose name is almost the same; a search's are too special to be meant."""
    leaves = {key.rpartition(".")[2] for key in schema_keys() if not key.startswith("search.")}
    return [key for leaf in near(name, leaves, cutoff=0.8) for key in known_elsewhere(leaf)]


def _unknown_name(error: UnknownNameError, values: dict[str, Any]) -> Problem:
    """Replace the unknown name with the near one: in a list, under `use`, or as the value itself."""
    part = error.key.partition(".")[0]
    key, given = error.key, values.get(part)
    library = from_library(error.key, error.name)
    if library:
        return Problem(key, str(error), library)
    if error.near is None and not isinstance(given, list):
        return Problem(key, str(error), {key: None})
    if isinstance(given, list):
        fixed = [_renamed(item, error) for item in given]
        return Problem(key, str(error), {key: [item for item in fixed if item is not None]})
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
    return Problem(key, f"{text}; {known}", {key: None if UNKNOWN in example.values() or not example else example})


def _example(key: str, given: Any, models: list[type[BaseModel]], forms: list[str]) -> dict[str, Any]:
    """Return a small section: the one meant by a bare name or flag, else its form's name or its required keys."""
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
    return get_args(annotation)[0] if get_origin(annotation) is Literal else UNKNOWN
