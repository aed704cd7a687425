"""Changes merged into a configuration: corrected, checked against the schema, and fixed where they break it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.error_text import Problem, document_for, explain_all
from trainwright.trainer.config.key_correction import SPACE, Correction, correct_changes
from trainwright.trainer.config.plain_values import Path, copied, laid_over, put, require_plain, split_key
from trainwright.trainer.config.schema import TrainingConfig
from trainwright.trainer.config.schema_index import Layout

MAX_PROBLEMS = 8
MAX_EXPLAINED = 100
"""Explaining compares broken keys with each other: a flood of them would keep the server busy for minutes."""
DECIDES = ("data", "args", "target")
"""Key without which something else is learned: no remedy leaves its value out."""
SPACE_KEY = f"{'.'.join(SPACE)}."
"""What the dotted key of a range begins with; the searched key after it is one part of a path."""
MAX_ROUNDS = 6
"""A fixed key may uncover the next broken one."""


@dataclass(frozen=True)
class MergedConfig:
    """A valid configuration, and how it was read."""

    values: dict[str, Any]
    """The form that is stored: the given values, in the schema's words, without defaults."""
    config: TrainingConfig
    changes: dict[str, Any]
    """Requested changes, by dotted key in the schema's words."""
    notes: list[str]
    """One sentence for each thing taken in another form than it was written in."""


def merge_changes(asked: dict[str, Any], base: dict[str, Any], *, argument: str, nested: bool = False) -> MergedConfig:
    """Apply the requested changes to a configuration, as they are meant.

    Args:
        asked: dotted or nested, in any form that has one reading.
        base: the configuration so far.
        argument: the name of the call's argument that holds `asked`; the remedy gives it complete and fixed.
        nested: whether the remedy writes sections instead of dotted keys.

    Raises:
        ConfigurationError: every broken key with its value, the rule and the nearest valid key, with
            `details["amend"]` = {argument: fixed value}; or as `require_plain`.
    """
    correction = correct_changes(asked, base)
    problems = [Problem(".".join(path), text) for path, text in correction.clashes.items()] or _problems(
        correction.leaves, base
    )
    if not problems:
        values = laid_over(base, correction.leaves)
        return MergedConfig(values, TrainingConfig.model_validate(values), dotted(correction.leaves), correction.notes)
    decided = correction.leaves.get(DECIDES)
    fixed = _fixed(correction, base)
    if decided is not None and not (fixed and (DECIDES in fixed or decided in fixed.values())):
        fixed = None
        problems = [replace(one, changes={}) if one.key == ".".join(DECIDES) else one for one in problems]
    if fixed:
        raise refusal(problems, amend={argument: sections(fixed) if nested else dotted(fixed)})
    raise refusal(problems, of_call=True)


def parse_config(values: dict[str, Any]) -> TrainingConfig:
    """Check a complete configuration against the schema, uncorrected.

    Raises:
        ConfigurationError: every broken key with its value, the rule and the nearest valid key; or as
            `require_plain`.
    """
    require_plain(values)
    problems = broken(values)
    if problems:
        raise refusal(problems)
    return TrainingConfig.model_validate(values)


def broken(values: dict[str, Any]) -> list[Problem]:
    """Return where a configuration breaks the schema; empty if nowhere."""
    try:
        TrainingConfig.model_validate(values)
    except ValidationError as error:
        found = sorted(error.errors(include_url=False), key=lambda problem: problem["type"] != "extra_forbidden")
        return explain_all(found[:MAX_EXPLAINED], values)
    return []


def refusal(
    problems: list[Problem], amend: dict[str, Any] | None = None, *, of_call: bool = False
) -> ConfigurationError:
    """Return the error that lists the problems, and the arguments that fix them if there are any.

    Args:
        of_call: whether a call holds the broken values, rather than a configuration that is kept.
    """
    texts = [problem.text for problem in problems]
    listed = "; ".join(texts[:MAX_PROBLEMS])
    changes = {key: value for problem in problems[:MAX_PROBLEMS] for key, value in problem.changes.items()}
    details: dict[str, Any] = {"problems": texts, "changes": changes}
    remedy = "Follow that rule: configure(project='…', changes={…})."
    if of_call:
        keys = ", ".join(f"`{problem.key}`" for problem in problems[:MAX_PROBLEMS])
        keys = keys if keys != "``" else "the configuration"
        remedy = f"Make the same call with {keys} as that rule says; this one has changed nothing."
    if amend is not None:
        details["amend"] = amend
        remedy = f"The same call with {', '.join(f'{name}={json.dumps(value)}' for name, value in amend.items())}."
    return ConfigurationError(
        f"The configuration breaks the schema: {listed}{'' if listed.endswith('?') else '.'}",
        remedy=remedy,
        document=document_for([problem.key for problem in problems]),
        details=details,
    )


def dotted(leaves: dict[Path, Any]) -> dict[str, Any]:
    """Return leaves by dotted key, as `configure` takes them."""
    return {".".join(path): value for path, value in leaves.items()}


def sections(leaves: dict[Path, Any]) -> dict[str, Any]:
    """Return leaves as nested sections, as `create_project` takes them."""
    nested: dict[str, Any] = {}
    for path in sorted(leaves, key=len):
        if leaves[path] is not None:
            put(nested, path, leaves[path])
    return nested


def _problems(leaves: dict[Path, Any], base: dict[str, Any]) -> list[Problem]:
    try:
        values = laid_over(base, leaves)
    except ConfigurationError as error:  # a key below a single value
        return [Problem(next(iter(error.details["changes"])), error.message, error.details["changes"])]
    require_plain(values)
    return broken(values)


def _fixed(correction: Correction, base: dict[str, Any]) -> dict[Path, Any] | None:
    """Return the requested changes with every problem fixed and checked; None if that cannot be done."""
    leaves = correction.leaves
    for _ in range(MAX_ROUNDS):
        problems = _problems(leaves, base)
        if not problems:
            return leaves
        before = dict(leaves)
        for problem in problems:
            for key, value in _way(problem, leaves).items():
                _fix(leaves, base, key, value)
        if leaves == before:
            return None
        leaves = correct_changes(dotted(leaves), base).leaves
    return None


def _way(problem: Problem, leaves: dict[Path, Any]) -> dict[str, Any]:
    """Return the changes that fix a problem: if possible, the first that keep the requested ones."""
    asked = [".".join(path) for path in leaves]
    ways = [problem.changes, *problem.others]
    untouched = (way for way in ways if way and not any(_overlap(key, one) for key in way for one in asked))
    return next(untouched, problem.changes)


def _overlap(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _fix(leaves: dict[Path, Any], base: dict[str, Any], key: str, value: Any) -> None:
    """Apply one change to the requested ones; what stands in a list is left to the caller."""
    name = key.removeprefix(SPACE_KEY)
    path = (*SPACE, name) if name != key else split_key(key)
    range_ = next((one for one in leaves if one[:2] == SPACE != one and name.startswith(f"{one[-1]}.")), None)
    if range_ is not None:
        leaves[range_] = copied(leaves[range_])
        put(leaves[range_], (name.removeprefix(f"{range_[-1]}."),), value)
    elif not any(part.isdigit() for part in path):
        asked = [one for one in leaves if one[: len(path)] == path]
        for one in asked:
            leaves.pop(one)
        if value is not None or (not asked and Layout(base).value_at(list(path)) is not None):
            leaves[path] = value
