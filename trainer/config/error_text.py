"""Error text of a configuration, in the words of its keys: value, rule, and the nearest valid key."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trainwright.trainer.base.errors import near
from trainwright.trainer.base.section import ImpossibleError
from trainwright.trainer.catalog.names import UnknownNameError, from_library
from trainwright.trainer.config.key_aliases import known_elsewhere, may_be_meant, schema_keys
from trainwright.trainer.config.schema_index import DEFAULT_FORMS, Layout
from trainwright.trainer.config.search import EXAMPLE_SPACE
from trainwright.trainer.config.value_coercion import coerced, fits, fixed_values

OVERVIEW = "configs/README.md"
"""The keys that no other document explains, and where the others are."""
OF_SPEED = (
    "loader.prefetch_factor", "loader.persistent_workers", "training.precision", "training.initial_loss_scale",
    "training.loss_scale_growth_steps", "training.gradient_checkpointing", "training.compile", "training.channels_last",
)  # fmt: skip
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
    "data.split": "configs/splits.md",
    "monitoring": "configs/monitoring.md",
    "search": "configs/searches.md",
    **dict.fromkeys(OF_SPEED, "configs/performance.md"),
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
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


_SECTION_NEEDED = {"model_type", "model_attributes_type", "dict_type", "union_tag_not_found"}
MAX_MEANT = 3
EXAMPLES = {"search.space": EXAMPLE_SPACE}
"""What a remedy gives a key that has no default."""
RANGES = "{type: float, low: …, high: …, log: true}, {type: int, low: …, high: …} or {type: categorical, choices: […]}"
LOG_FROM = 100
"""Ratio of the ends from which a range is searched on a logarithmic scale, where nothing is said."""
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
    if kind == "extra_forbidden":
        return _unknown_key(location, given, layout, tags=[str(part) for part in problem["loc"]])
    if location[:2] == ["search", "space"] and len(location) > 2:
        return _broken_range(problem, location, layout)
    if kind == "missing":
        return Problem(key, f"`{key}` is required, and missing", {key: EXAMPLES[key]} if key in EXAMPLES else {})
    if kind.startswith("union_tag") and isinstance(given, dict):
        return _unknown_form(key, given, layout)
    if kind in _SECTION_NEEDED and layout.models_at(location) and not isinstance(given, dict):
        return _no_section(location, given, layout)
    return _broken_rule(problem, rivals, key, layout)


def _broken_range(problem: Any, location: list[str], layout: Layout) -> Problem:
    """Explain how a range of a search is written, with the one that was probably meant."""
    key, given, reason = ".".join(location), problem["input"], str(problem["msg"]).removeprefix("Value error, ")
    whole = layout.value_at(location[:3])
    is_form = problem["type"].startswith("union_tag") or problem["type"] in _SECTION_NEEDED
    text = f"`{key}` = {as_yaml(given)}: {f'a range is {RANGES}' if is_form else reason}"
    if problem["type"] == "missing":
        return Problem(key, f"`{key}` is required, and missing: a range is {RANGES}")
    are_numbers = isinstance(whole, list) and all(isinstance(one, int | float) for one in whole)
    if are_numbers and len(whole) == 2:  # the ends of a range, or two choices
        low, high = sorted(whole)
        kind = "int" if isinstance(low, int) and isinstance(high, int) else "float"
        log = {"log": True} if low > 0 and high / low >= LOG_FROM else {}
        return Problem(key, text, {key: {"type": kind, "low": low, "high": high, **log}})
    if problem["type"] == "value_error" and whole["low"] != whole["high"]:
        low, high = sorted([whole["low"], whole["high"]])
        kept = {name: value for name, value in whole.items() if name != "step" or not reason.startswith("`step`")}
        return Problem(key, text, {key: {**kept, "low": low, "high": high, "log": kept.get("log", False) and low > 0}})
    return Problem(key, text)


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
    if rivals and problem["type"] in _OF_A_UNION:
        reason = " or ".join(dict.fromkeys([reason, *(str(other["msg"]) for other in rivals)]))
    fixed = EXAMPLES.get(key) or _nearest_value(problem, given, layout.rule_at(key.split(".")))
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
    is_range = parents[:2] == ["search", "space"]
    elsewhere = [name for name in known_elsewhere(last) if may_be_meant(name, parents) and not is_range]
    meant = elsewhere or alike or _alike_elsewhere(last)
    if not 0 < len(meant) <= MAX_MEANT:
        return Problem(key, f"unknown key `{key}`; known: {', '.join(known) or 'none'}", {key: None})
    meant.sort(key=lambda name: (not _fits(name, given, layout), not layout.is_taken(name.split("."))))
    fits = isinstance(given, dict) or not layout.models_at(meant[0].split("."))
    text = f"unknown key `{key}`; did you mean {' or '.join(f'`{name}`' for name in meant)}?"
    return Problem(key, text, {key: None, meant[0]: given} if fits else {key: None})


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
    form = given if isinstance(given, str) and given in forms else DEFAULT_FORMS.get(key)
    fields = layout.models_at(location)[0].model_fields
    needed = [f"name: {form}"] if form else [f"{name}: …" for name, about in fields.items() if about.is_required()]
    text = f"`{key}` = {as_yaml(given)}: a section is needed, for example {{{', '.join(needed)}}}"
    if layout.may_be_null(location):
        text += ", or null for none" if needed else " for the defaults, or null for none"
    known = f"its names: {', '.join(forms)}" if forms else f"its keys: {', '.join(layout.known_keys(location))}"
    return Problem(key, f"{text}; {known}", {key: {"name": form} if form else None})
