"""What broke in a configuration, in the words of its keys: value, rule, and the nearest valid key."""

from __future__ import annotations

import difflib
from typing import Any, get_args

from pydantic import BaseModel

from trainwright.trainer.config.averaging import DEFAULT_AVERAGING
from trainwright.trainer.config.mixing import DEFAULT_MIXING
from trainwright.trainer.config.objectives import DEFAULT_OBJECTIVE
from trainwright.trainer.config.optimizers import DEFAULT_OPTIMIZER
from trainwright.trainer.config.schedules import DEFAULT_SCHEDULE
from trainwright.trainer.config.schema import TrainingConfig

_UNION_TAGS = {"str", "int", "float", "bool", "categorical", "Entry", "FloatRange", "IntRange", "Choices"}
_DEFAULT_FORMS = {
    "objective": DEFAULT_OBJECTIVE,
    "optimizer": DEFAULT_OPTIMIZER,
    "schedule": DEFAULT_SCHEDULE,
    "weight_averaging": DEFAULT_AVERAGING,
    "mixing": DEFAULT_MIXING,
}


def explain_all(found: list[Any]) -> list[str]:
    """Return one text per broken key: of a union's complaints, those of the member that was meant."""
    keys = [".".join(_location(problem["loc"])) for problem in found]
    texts: dict[str, str] = {}
    for problem, key in zip(found, keys, strict=True):
        deeper = any(other.startswith(f"{key}.") for other in keys)
        meant_other = deeper and problem["type"] in {"string_type", "model_type", "int_type", "float_type"}
        if not meant_other:
            texts.setdefault(key, _explain(problem))
    return list(texts.values())


def _location(parts: tuple[int | str, ...]) -> list[str]:
    """Return the path of keys as it is written in YAML: without the tags that pydantic adds for union members."""
    location: list[str] = []
    for part in map(str, parts):
        tags = _UNION_TAGS | _forms(location).keys()
        is_tag = part in tags and part not in _known_keys(location) and location[-1:] != ["space"]
        if not is_tag and not part.startswith(("function-", "is-instance", "constrained-", "tagged-union")):
            location.append(part)
    return location


def _explain(problem: Any) -> str:
    location = _location(problem["loc"])
    key = ".".join(location) or "(whole)"
    if problem["type"] == "extra_forbidden":
        return _explain_unknown_key(location, key, tags=[str(part) for part in problem["loc"]])
    if problem["type"].startswith("union_tag") and key in _DEFAULT_FORMS:
        return _explain_unknown_form(key, problem["input"])
    value = repr(problem.get("input"))
    shown = value if len(value) <= 60 else value[:57] + "..."
    reason = str(problem["msg"]).removeprefix("Value error, ")
    return f"`{key}` = {shown}: {reason}" if location else reason


def _explain_unknown_key(location: list[str], key: str, tags: list[str]) -> str:
    """Return what is known instead; of a section of several forms, the keys of the form that was chosen."""
    *parents, last = location
    forms = _forms(parents)
    chosen = next((tag for tag in tags if tag in forms), None)
    known = sorted(forms[chosen].model_fields) if chosen is not None else _known_keys(parents)
    owners = [form for form, model in forms.items() if last in model.model_fields]
    if chosen is not None and owners:
        return f"`{key}` is not taken by {chosen}, only by {', '.join(owners)}; {chosen} takes {', '.join(known)}"
    near = difflib.get_close_matches(last, known, n=1, cutoff=0.5)
    hint = f"did you mean `{'.'.join([*parents, near[0]])}`?" if near else f"known: {', '.join(known)}"
    return f"unknown key `{key}`; {hint}"


def _explain_unknown_form(key: str, value: Any) -> str:
    """Return the names among which a section is chosen, for one that names none of them."""
    known = list(_forms([key]))
    if not isinstance(value, dict):
        return f"`{key}` = {value!r:.60}: a section is needed, for example {{name: {_DEFAULT_FORMS[key]}}}"
    name = value.get("name")
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return f"`{key}.name` = {name!r:.60}: must be one of {', '.join(known)}{hint}"


def _forms(path: list[str]) -> dict[str, type[BaseModel]]:
    """Return the forms of the section at `path` by the name that chooses each; none for a section of one form."""
    named = {model.model_fields["name"].default: model for model in _models_at(path) if "name" in model.model_fields}
    return named if len(named) > 1 else {}


def _known_keys(path: list[str]) -> list[str]:
    """Keys of the section at `path`, union members included."""
    return sorted({name for model in _models_at(path) for name in model.model_fields})


def _models_at(path: list[str]) -> list[type[BaseModel]]:
    models: list[type[BaseModel]] = [TrainingConfig]
    for part in path:
        found = [
            m for model in models if part in model.model_fields for m in _models_in(model.model_fields[part].annotation)
        ]
        models = found or models  # an index, or a union tag, names no field
    return models


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]
