"""The keys that a configuration may have, found from the schema by dotted path."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from trainwright.trainer.catalog.names import BUILT_IN, arguments_of
from trainwright.trainer.config.schema import TrainingConfig
from trainwright.trainer.objectives.mixing_sections import DEFAULT_MIXING
from trainwright.trainer.objectives.sections import DEFAULT_OBJECTIVE
from trainwright.trainer.optimization.optimizers import DEFAULT_OPTIMIZER
from trainwright.trainer.optimization.schedules import DEFAULT_SCHEDULE
from trainwright.trainer.optimization.weight_averaging import DEFAULT_AVERAGING

DEFAULT_FORMS = {
    "objective": DEFAULT_OBJECTIVE,
    "optimizer": DEFAULT_OPTIMIZER,
    "schedule": DEFAULT_SCHEDULE,
    "weight_averaging": DEFAULT_AVERAGING,
    "mixing": DEFAULT_MIXING,
}
"""Section of several forms to the name of its default form."""
_UNION_TAGS = {"str", "int", "float", "bool", "categorical", "Entry", "FloatRange", "IntRange", "Choices"}
_ADDED = (
    *("function-", "is-instance", "constrained-", "tagged-union", "literal[", "list[", "tuple[", "lax-or", "nullable"),
    *("json-or", "definition-ref", "dict["),
)
"""Prefixes of the markers that pydantic puts between keys to distinguish the members of a union."""
_BUILT_IN_UNDER = {
    "model": "model.use",
    "teacher": "model.use",
    "data": "data.use",
    "loss": "loss",
    "metrics": "metrics",
    "curriculum": "curriculum.use",
}
"""Section whose `args` depend on the built-in name that its `use` gives."""


@dataclass(frozen=True)
class Layout:
    """The schema as it applies to these values: the fields of `args` depend on the name beside it."""

    values: dict[str, Any]

    def location(self, parts: tuple[int | str, ...]) -> list[str]:
        """Return the path of keys as it is written in YAML: without the tags that pydantic adds for union members."""
        location: list[str] = []
        for part in map(str, parts):
            tags = _UNION_TAGS | self.forms(location).keys() | {model.__name__ for model in self.models_at(location)}
            is_tag = part in tags and part not in self.known_keys(location) and location[-1:] != ["space"]
            if not is_tag and not part.startswith(_ADDED):
                location.append(part)
        return location

    def forms(self, path: list[str]) -> dict[str, type[BaseModel]]:
        """Return the forms of the section at `path` by the name that chooses each; none for a section of one form."""
        named = {
            model.model_fields["name"].default: model for model in self.models_at(path) if "name" in model.model_fields
        }
        return named if len(named) > 1 else {}

    def known_keys(self, path: list[str]) -> list[str]:
        """Return the keys of the section at `path`, those of every form included."""
        return sorted({name for model in self.models_at(path) for name in model.model_fields})

    def is_mapping(self, path: list[str]) -> bool:
        """Return whether the key takes free names, with a section under each."""
        return any(get_origin(about.annotation) is dict for about in self._fields_at(path)) and path[-1] != "args"

    def may_be_null(self, path: list[str]) -> bool:
        """Return whether the key may be null."""
        return any(type(None) in get_args(about.annotation) for about in self._fields_at(path))

    def models_at(self, path: list[str]) -> list[type[BaseModel]]:
        """Return the sections that are possible at `path`; empty for a single value."""
        models: list[type[BaseModel]] = [TrainingConfig]
        for place, part in enumerate(path):
            owners = [model for model in models if part in model.model_fields]
            if owners:
                models = [found for owner in owners for found in _models_under(owner, part)]
                models = self._arguments_at(path[: place + 1]) if part == "args" else models
        return models

    def rule_at(self, path: list[str]) -> Any:
        """Return the annotation of a key with its rules; None where the key is free, or its forms differ."""
        rules = [Annotated[(about.annotation, *about.metadata)] if about.metadata else about.annotation
                 for about in self._fields_at(path) or self._fields_of_any_form(path)]  # fmt: skip
        return Union[tuple(rules)] if rules else None  # noqa: UP007 - made of the forms' rules

    def names_at(self, path: list[str]) -> list[str]:
        """Return the names of forms or built-in parts among which a key chooses; none for any other key."""
        forms = self.forms(path[:-1])
        if not path:
            return []
        if path[-1] == "name" and forms:
            return list(forms)
        part = next((part for part in reversed(path) if part in _BUILT_IN_UNDER), "")
        whole = path[-1] == part == "loss" or (part == "metrics" and path[-2:-1] == ["metrics"] and path[-1].isdigit())
        is_name = whole or (path[-1] == "use" and path[-2:-1] != ["optimizer"])
        return list(BUILT_IN[_BUILT_IN_UNDER[part]]) if part and is_name else []

    def is_taken(self, path: list[str]) -> bool:
        """Return whether the form that is chosen for the key's section has the key."""
        return bool(self._fields_at(path))

    def is_unknown(self, path: list[str]) -> bool:
        """Return whether a key's section is closed, and does not know the key."""
        known = self.known_keys(path[:-1])
        return bool(known) and path[-1] not in known and not self.is_mapping(path[:-1]) and not path[-1].isdigit()

    def is_present(self, path: list[str]) -> bool:
        """Return whether the section at a path is in use: it cannot be null, or is not."""
        return not path or not self.may_be_null(path) or isinstance(self.value_at(path), dict)

    def value_at(self, path: list[str]) -> Any:
        """Return the value at a path; None where there is none."""
        return _value_at(self.values, path)

    def _fields_at(self, path: list[str]) -> list[FieldInfo]:
        if not path:
            return []
        owners, forms = self.models_at(path[:-1]), self.forms(path[:-1])
        if forms:
            named = "own" if self._is_own(path[:-1]) else _value_at(self.values, [*path[:-1], "name"])
            owners = [forms[named if named in forms else DEFAULT_FORMS[path[-2]]]] if path[-2] in DEFAULT_FORMS else []
        return [model.model_fields[path[-1]] for model in owners if path[-1] in model.model_fields]

    def _is_own(self, path: list[str]) -> bool:
        """Return whether the section's part is user code, regardless of the name beside its `use`."""
        return "own" in self.forms(path) and self.value_at([*path, "use"]) is not None

    def _fields_of_any_form(self, path: list[str]) -> list[FieldInfo]:
        models = self.models_at(path[:-1]) if path else []
        return [model.model_fields[path[-1]] for model in models if path[-1] in model.model_fields]

    def _arguments_at(self, path: list[str]) -> list[type[BaseModel]]:
        key = next((_BUILT_IN_UNDER[part] for part in reversed(path) if part in _BUILT_IN_UNDER), None)
        entry = _value_at(self.values, path[:-1])
        entry = {"use": entry} if isinstance(entry, str) else entry
        if key is None or not isinstance(entry, dict) or not isinstance(entry.get("use"), str):
            return []
        args = entry.get("args")
        section = arguments_of(key, entry["use"], args if isinstance(args, dict) else {})
        return [section] if section is not None else []


def _value_at(values: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(values, dict):
            values = values.get(part)
        elif isinstance(values, list) and part.isdigit() and int(part) < len(values):
            values = values[int(part)]
        else:
            return None
    return values


@cache
def _models_under(owner: type[BaseModel], key: str) -> list[type[BaseModel]]:
    return _models_in(owner.model_fields[key].annotation)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]
