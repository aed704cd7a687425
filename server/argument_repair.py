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
from trainwright.trainer.config.value_coercion import coerced, fits, fixed_values, from_text

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
    "limits": ("budget", "quotas"),
    "search": ("config", "search_space", "study", "search_config"),
    "wait_seconds": ("wait", "timeout", "timeout_seconds", "seconds", "wait_s"),
    "after_step": ("since_step", "step"),
    "max_steps": ("steps", "n_steps", "num_steps"),
    "path": ("document", "file", "name", "doc", "query", "question", "words", "topic", "key"),
}
"""Argument to the names that agents use for it by mistake."""
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
        if name == "goal" and isinstance(value, dict | str) and name in rules:
            arguments[name], read = corrected_goal(value, placed.get("config"))
            notes += read
            continue
        arguments[name] = _value(name, value, rules.get(name))
        parsed = from_text(value) if isinstance(value, str) else value
        if not equal(arguments[name], value) and not equal(arguments[name], parsed):
            notes.append(f"{name} {shown(value)} taken as {shown(arguments[name])}")
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


def with_values(arguments: Mapping[str, Any], others: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """Return arguments with texts replaced, by a mapping of old to new ones.

    Args:
        key: dotted key of a configuration, under which alone they are. Short and long forms (`model: mlp`,
            `model.use: mlp`) are under the same key; places in lists do not count.
    """
    wanted = _without_places(key)

    def replaced(value: Any, at: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return {name: replaced(item, at + _without_places(str(name))) for name, item in value.items()}
        if isinstance(value, list):
            return [replaced(item, at) for item in value]
        is_under = not key or (bool(at) and (wanted[: len(at)] == at or at[: len(wanted)] == wanted))
        return others.get(value, value) if isinstance(value, str) and is_under else value

    return {name: replaced(value, ()) for name, value in arguments.items()}


def _without_places(key: str) -> tuple[str, ...]:
    return tuple(part for part in key.split(".") if not part.isdigit())


def _rule(about: Any) -> Any:
    if about is None:
        return None
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
    if holder is None or not known or not isinstance(placed.get(holder), dict | str | None):
        return None
    inner = (
        [one.removeprefix("search.") for one in known if one.startswith("search.")] if holder == "search" else [name]
    )
    return (holder, inner[0]) if inner else None


def _value(name: str, given: Any, rule: Any) -> Any:
    """Return the value of one argument, or of a key in it, in the form of its rule."""
    if rule is None or given is None:
        return given
    section = next(_sections(rule), None)
    value = given
    if isinstance(given, str) and name not in FREE_TEXT:
        value = from_text(given) if section is not None or fits(rule, {}) else given.strip()
    if name == "limits" and isinstance(value, dict):
        return _limits(value)
    if section is not None and isinstance(value, dict):
        fields = section.model_fields
        named = {same(key, fields) or key: one for key, one in value.items()}
        return {key: _value(key, one, _rule(fields.get(key))) for key, one in _said(section, named).items()}
    if name == "goal" and not isinstance(value, dict):  # the owner's: of a target alone
        return {"target": coerced(float, value)}
    value = coerced(rule, value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(max(value, 0), LONGEST_SECONDS) if name == "wait_seconds" and is_number else value


def _limits(given: dict[str, Any]) -> dict[str, Any]:
    from trainwright.tools.owner import limits_as_meant  # it loads the database, which start-up avoids

    return limits_as_meant({name: value for name, value in given.items() if _says(value)})


def _sections(rule: Any) -> Iterator[type[BaseModel]]:
    if isinstance(rule, type) and issubclass(rule, BaseModel):
        yield rule
    elif get_origin(rule) is not None:
        for part in get_args(rule)[:1] if get_origin(rule) is Annotated else get_args(rule):
            yield from _sections(part)


def _repair(repaired: dict[str, Any], model: type[BaseModel], problem: Mapping[str, Any]) -> None:
    """Repair one invalid argument, as close as possible to the given value."""
    name, *inner = [str(part) for part in problem["loc"]] or [""]
    kind, given = problem["type"], repaired.get(name)
    if name == "goal":
        goal = nearest_goal(given, repaired.get("config"))
        repaired |= {"goal": goal} if goal is not None else {}
    elif kind == "extra_forbidden" and not inner:
        meant = near(name, [known for known in model.model_fields if known not in repaired])
        repaired |= {meant[0]: given} if meant else {}
        repaired.pop(name)
    elif kind == "extra_forbidden" and isinstance(given, dict):
        repaired[name] = {key: value for key, value in given.items() if key != inner[-1]}
    elif kind in {"greater_than_equal", "less_than_equal"} and not inner:
        repaired[name] = problem["ctx"]["ge" if kind == "greater_than_equal" else "le"]
    elif kind == "literal_error" and isinstance(given, str):
        meant = near(given, fixed_values(_rule(model.model_fields.get(name))), cutoff=0.75)
        repaired |= {name: meant[0]} if meant else {}
    elif name in OPTIONAL and not inner:
        repaired.pop(name, None)
