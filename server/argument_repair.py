"""Argument repair: a call's names and values in another form are accepted if only one reading fits.

`trainer/config` reads the configuration's keys; this module handles the tools' arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from trainwright.server.bounded_wait import LONGEST_SECONDS
from trainwright.trainer.base.errors import ConfigurationError, folded, near, same
from trainwright.trainer.config.goal import KEYS as GOAL_KEYS
from trainwright.trainer.config.goal import corrected_goal, nearest_goal
from trainwright.trainer.config.key_aliases import known_elsewhere
from trainwright.trainer.config.plain_values import equal, shown
from trainwright.trainer.config.value_coercion import coerced, fits, fixed_values, from_text, number_in

OTHER_NAMES = {
    "project": ("project_name", "project_id", "name"),
    "name": ("project", "project_name"),
    "intent": ("description", "purpose", "about", "goal_description"),
    "run_id": ("run", "id", "run_name", "runid"),
    "run_ids": ("runs", "ids", "run_id", "run"),
    "study_id": ("study", "id", "search_id"),
    "kind": ("type", "run_kind", "run_type", "mode"),
    "phase": ("gate", "phase_name", "gate_name"),
    "changes": ("config", "configuration", "overrides", "values", "settings", "updates", "params"),
    "config": ("configuration", "changes", "settings", "overrides", "training_config"),
    "template": ("base", "preset", "base_template"),
    "limits": ("budget", "quotas"),
    "search": ("config", "search_space", "study", "search_config"),
    "wait_seconds": ("wait", "timeout", "timeout_seconds", "seconds", "wait_s"),
    "after_step": ("since_step", "step"),
    "max_steps": ("steps", "n_steps", "num_steps"),
    "metric": ("metrics", "key"),
    "path": ("document", "file", "name", "doc", "query", "question", "words", "topic", "key"),
    "ask_owner": ("ask", "owner", "request"),
    "hand_over": ("handover", "handoff", "hand_off"),
    "verify": ("check",),
    "idempotency_key": ("key", "request_id"),
}
"""Argument to the names that agents use for it by mistake."""
KINDS = {
    "final": ("final_run", "finalrun", "production", "finalize"),
    "baseline": ("train", "training", "base", "baseline_run", "full"),
    "smoke": ("smoke_test", "test", "dry_run", "quick", "smoketest"),
    "probe": ("profile", "lr_find", "lr_finder", "benchmark"),
    "ablation": ("ablate", "ablation_study"),
}
OPTIONAL = {"wait_seconds", "after_step", "max_steps", "idempotency_key", "detail", "verify", "offset"}
"""Arguments whose unreadable value is best left out; all others are essential to the call."""
FREE_TEXT = {"intent", "reason"}
MAX_ARGUMENTS = 64
"""Of one call: each unknown one is looked for in the configuration's keys."""
HOLDERS = ("changes", "config", "search")
"""Arguments that hold parts of a configuration; a misplaced key belongs into the first that the tool has."""


def normalized_arguments(model: type[BaseModel], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments in the schema's form, and a note for each one that was written differently."""
    if len(given) > MAX_ARGUMENTS:
        raise ConfigurationError(
            f"The call has {len(given)} arguments, and at most {MAX_ARGUMENTS} are read.",
            remedy=f"Leave out those that the tool does not have: it takes {', '.join(model.model_fields)}.",
        )
    rules = {name: _rule(about) for name, about in model.model_fields.items()}
    placed, notes = _placed(rules, given)
    placed = _said(model, placed)
    placed, read = _of_one_project(model, placed)
    notes += read
    arguments: dict[str, Any] = {}
    for name, value in placed.items():
        if name == "goal" and isinstance(value, dict | str) and rules.get(name) is not None:
            normalized, changed = corrected_goal(value, placed.get("config"))
        else:
            normalized, changed = _value(name, value, rules.get(name))
        arguments[name] = normalized
        notes += changed
    return arguments, notes


def _of_one_project(model: type[BaseModel], given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Read project and run from each other: digits/baseline-2 names both, and a project stands for its newest run."""
    fields, project = model.model_fields, given.get("project")
    name = next((one for one in ("run_id", "study_id") if one in fields), None)
    handle = given.get(name or "")
    if name is None or "run_ids" in fields or not isinstance(handle or project, str):
        return given, []
    if "project" not in given and "project" in fields and fields["project"].is_required() and "/" in str(handle):
        owner = str(handle).partition("/")[0]
        return {**given, "project": owner}, [f"project {owner!r} read from {name}"]
    if "project" in fields or not isinstance(project, str):
        return given, []
    rest = {key: value for key, value in given.items() if key != "project"}
    if handle in {None, "", "latest"}:
        return {**rest, name: project}, [f"project {project!r} taken as {name}: its newest"]
    owner, _, of_it = str(handle).partition("/")
    if of_it or owner == project:
        return (rest, []) if owner == project else (given, [])
    return {**rest, name: f"{project}/{handle}"}, [f"{name} taken as {project}/{handle}"]


def _said(model: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without the optional ones that a client's form sends empty: null or blank."""
    fields = model.model_fields
    return {
        name: value for name, value in given.items() if name not in fields or fields[name].is_required() or _says(value)
    }


def _says(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and not value.strip())


def repaired_arguments(
    model: type[BaseModel], given: Mapping[str, Any], error: ValidationError
) -> dict[str, Any] | None:
    """Return the arguments of a refused call, repaired and validated; None if something is missing."""
    repaired = dict(given)
    for problem in error.errors(include_url=False):
        _repair(repaired, model, problem)
    repaired, _ = normalized_arguments(model, repaired)
    try:
        model.model_validate(repaired)
    except ValidationError:
        return None
    return repaired


def with_names(value: Any, others: Mapping[str, str]) -> Any:
    """Return a value with the names in it replaced, by a mapping of old to new ones."""
    if isinstance(value, dict):
        return {key: with_names(item, others) for key, item in value.items()}
    if isinstance(value, list):
        return [with_names(item, others) for item in value]
    return others.get(value, value) if isinstance(value, str) else value


def with_values(arguments: Mapping[str, Any], key: str, others: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with the text under one dotted key of a configuration replaced, and nothing else.

    Short and long forms (`model: mlp`, `model.use: mlp`) are under the same key; places in lists do not count.
    """
    wanted = _without_places(key)

    def replaced(value: Any, at: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return {name: replaced(item, at + _without_places(str(name))) for name, item in value.items()}
        if isinstance(value, list):
            return [replaced(item, at) for item in value]
        is_under = bool(at) and (wanted[: len(at)] == at or at[: len(wanted)] == wanted)
        return others.get(value, value) if isinstance(value, str) and is_under else value

    return {name: replaced(value, ()) for name, value in arguments.items()}


def _without_places(key: str) -> tuple[str, ...]:
    return tuple(part for part in key.split(".") if not part.isdigit())


def _rule(about: Any) -> Any:
    return Annotated[about.annotation, *about.metadata] if about.metadata else about.annotation


def _placed(rules: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Rename arguments to the schema's names, and move those that belong into another argument there."""
    placed: dict[str, Any] = {name: value for name, value in given.items() if name in rules}
    notes: list[str] = []
    for name, value in given.items():
        if name in rules:
            continue
        free = [known for known in rules if known not in placed]
        called = (one for one in free if folded(name) in map(folded, OTHER_NAMES.get(one, ())))
        ours = same(name, free) or next(called, None)
        if ours is not None:
            placed[ours] = value
            notes.append(f"{name} taken as {ours}")
            continue
        into = _into(rules, name, placed)
        if into is None:
            placed[name] = value
        else:
            holder, key = into
            held = placed.get(holder)
            held = from_text(held) if isinstance(held, str) else held
            placed[holder] = {**(held if isinstance(held, dict) else {}), key: value}
            notes.append(f"{name} {shown(value)} taken as {key} of {holder}")
    return placed, notes


def _into(rules: Mapping[str, Any], name: str, placed: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the argument that a misplaced key of a goal or configuration belongs into, and its key there."""
    if "goal" in rules:
        of_goal = next((key for key, others in GOAL_KEYS.items() if folded(name) in {key, *map(folded, others)}), None)
        if of_goal is not None and isinstance(placed.get("goal", {}), dict):
            return "goal", of_goal
    holder = next((one for one in HOLDERS if one in rules), None)
    known = known_elsewhere(name.rsplit(".", maxsplit=1)[-1])
    if holder is None or not known or not (isinstance(placed.get(holder), dict | str) or placed.get(holder) is None):
        return None
    key = name
    if holder == "search":
        inner = [one.removeprefix("search.") for one in known if one.startswith("search.")]
        return (holder, inner[0]) if inner else None
    return holder, key


def _value(name: str, given: Any, rule: Any) -> tuple[Any, list[str]]:
    """Return the normalized value of one argument, and the note on it if it was changed."""
    if rule is None or given is None:
        return given, []
    sections = list(_sections(rule))
    value = from_text(given) if isinstance(given, str) and (sections or fits(rule, {})) else given
    if sections and isinstance(value, dict):
        value = _section(sections[0], value)
    elif isinstance(value, str) and not sections:
        value = _text(name, value, rule)
    elif not fits(rule, value):
        value = coerced(rule, value)
    if name == "wait_seconds":
        value = _clamped(value)
    if name == "limits" and isinstance(value, dict):
        value = _limits(value)
    is_same = equal(value, given) or (isinstance(given, str) and from_text(given) == value)
    return value, [] if is_same else [f"{name} {shown(given)} taken as {shown(value)}"]


def _limits(given: dict[str, Any]) -> dict[str, Any]:
    from trainwright.tools.owner import limits_as_meant  # it loads the database, which start-up avoids

    return limits_as_meant({name: value for name, value in given.items() if _says(value)})


def _text(name: str, given: str, rule: Any) -> Any:
    value: Any = given if name in FREE_TEXT else given.strip()
    if fits(rule, value):
        return value
    other = next((kind for kind, names in KINDS.items() if folded(value) in map(folded, names)), None)
    return other if name == "kind" and other is not None else coerced(rule, value)


def _clamped(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(max(value, 0), LONGEST_SECONDS) if is_number else value


def _section(model: type[BaseModel], given: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    named = {same(key, model.model_fields) or key: value for key, value in given.items()}
    for ours, value in _said(model, named).items():
        rule = _rule(model.model_fields[ours]) if ours in model.model_fields else None
        meant = value if rule is None else coerced(rule, from_text(value) if isinstance(value, str) else value)
        if ours == "limits" and isinstance(meant, dict):
            meant = _limits(meant)
        if ours == "goal" and not isinstance(meant, dict):
            meant = {"target": _number(meant)}
        found[ours] = meant
    return found


def _number(given: Any) -> Any:
    number = number_in(given) if isinstance(given, str) else None
    return given if number is None else number


def _sections(rule: Any) -> Iterator[type[BaseModel]]:
    if isinstance(rule, type) and issubclass(rule, BaseModel):
        yield rule
    elif get_origin(rule) is not None:
        for part in get_args(rule)[:1] if get_origin(rule) is Annotated else get_args(rule):
            yield from _sections(part)


def _repair(repaired: dict[str, Any], model: type[BaseModel], problem: Mapping[str, Any]) -> None:
    """Repair one invalid argument, as close as possible to the given value."""
    name, *inner = [str(part) for part in problem["loc"]] or [""]
    kind, context = problem["type"], problem.get("ctx", {})
    about = model.model_fields.get(name)
    rule = _rule(about) if about is not None else None
    if name == "goal":
        goal = nearest_goal(repaired.get("goal"), repaired.get("config"))
        repaired |= {"goal": goal} if goal is not None else {}
    elif kind == "extra_forbidden" and not inner:
        value = repaired.pop(name, None)
        meant = near(name, [known for known in model.model_fields if known not in repaired])
        repaired |= {meant[0]: value} if meant else {}
    elif kind == "extra_forbidden" and isinstance(repaired.get(name), dict):
        repaired[name] = {key: value for key, value in repaired[name].items() if key != inner[-1]}
    elif kind in {"greater_than_equal", "less_than_equal"} and not inner:
        repaired[name] = context["ge" if kind == "greater_than_equal" else "le"]
    elif kind == "literal_error" and isinstance(repaired.get(name), str):
        meant = near(repaired[name], fixed_values(rule), cutoff=0.75)
        repaired |= {name: meant[0]} if meant else {}
    elif kind in {"too_long", "string_too_long"} and not inner and name in repaired:
        repaired[name] = repaired[name][: context["max_length"]]
    elif name in OPTIONAL and not inner:
        repaired.pop(name, None)
