"""Reading a configuration from YAML or JSON types, and changing single keys of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import yaml
from pydantic import ValidationError

from trainwright.trainer.canonical import digest_json
from trainwright.trainer.config.documents import OVERVIEW, document_for
from trainwright.trainer.config.explanation import explain_all
from trainwright.trainer.config.plain import require_plain
from trainwright.trainer.config.schema import TrainingConfig
from trainwright.trainer.errors import ConfigurationError

MAX_YAML_BYTES = 256 * 1024
MOST_PROBLEMS = 8
MOST_EXPLAINED = 100
"""Explaining compares broken keys with each other: a flood of them would keep the server busy for minutes."""
MOST_CHARACTERS = 600


class _NoAliasLoader(yaml.SafeLoader):
    """A safe loader that refuses aliases (the building block of YAML bombs) and repeated keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        repeated = sorted({str(key) for key in keys if keys.count(key) > 1})
        if repeated:
            raise yaml.YAMLError(f"key given twice: {', '.join(repeated)}")
        return super().construct_mapping(node, deep=deep)


# YAML 1.1 reads `1e-3` as a string; the field writes learning rates that way.
_NoAliasLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"),
    list("-+0123456789"),
)


def load_yaml(text: str, *, source: str = "the configuration") -> dict[str, Any]:
    """Read a YAML mapping without tags, aliases or repeated keys.

    Raises:
        ConfigurationError: the text is too long, not YAML, or not a mapping.
    """
    remedy = "Send a plain YAML mapping; read_document('configs/README.md') shows one."
    if len(text.encode()) > MAX_YAML_BYTES:
        raise ConfigurationError(f"{source} is longer than {MAX_YAML_BYTES} bytes.", remedy=remedy, document=OVERVIEW)
    try:
        value = yaml.load(text, Loader=_NoAliasLoader)  # noqa: S506 - a subclass of SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ConfigurationError(f"{source} is not valid YAML: {reason}", remedy=remedy, document=OVERVIEW) from error
    if not isinstance(value, dict):
        raise ConfigurationError(
            f"{source} is a {type(value).__name__}; it must be a mapping.", remedy=remedy, document=OVERVIEW
        )
    return value


def dump_yaml(value: dict[str, Any]) -> str:
    """Return the mapping as YAML in its own key order."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)


SINCE_FIRST = ("evaluation_gate",)
"""Sections, absent by default, that configurations of earlier versions do not know."""


def config_digest(config: TrainingConfig) -> str:
    """Return the digest of all that a run depends on, defaults filled in: everything but `search`.

    A section that came later counts where it is set, so that older workspaces keep their digests.
    """
    later = {name for name in SINCE_FIRST if getattr(config, name) is None}
    return digest_json(config.model_dump(mode="json", exclude={"search", *later}))


Mend = Callable[[dict[str, Any]], str]
"""Makes the remedy of a broken configuration from the dotted changes that would mend it (None takes a key out)."""


def parse_config(values: dict[str, Any], *, mend: Mend | None = None) -> TrainingConfig:
    """Check the values against the schema; `mend` words the call that gave them, mended.

    Raises:
        ConfigurationError: every broken key with its value, the rule and the nearest valid key; or what `require_plain`
            refuses.
    """
    require_plain(values)
    try:
        return TrainingConfig.model_validate(values)
    except ValidationError as error:
        found = sorted(error.errors(include_url=False), key=lambda problem: problem["type"] != "extra_forbidden")
        problems = explain_all(found[:MOST_EXPLAINED], values)
        texts = [problem.text for problem in problems]
        told = "; ".join(texts[:MOST_PROBLEMS])
        changes = {
            key: value
            for problem in problems[:MOST_PROBLEMS]
            for key, value in problem.changes.items()
            if not any(part.isdigit() for part in key.split("."))  # a list is changed as a whole
        }
        raise ConfigurationError(
            f"The configuration breaks the schema: {told}{'' if told.endswith('?') else '.'}",
            remedy=(mend or mended_call)(changes),
            document=document_for([problem.key for problem in problems]),
            details={"problems": texts, "changes": changes},
        ) from None


def mended_call(
    mended: dict[str, Any], call: str = "configure(project='…'", given: dict[str, Any] | None = None
) -> str:
    """Return the remedy that corrects the changes `given` to a call: the whole call, as far as it can be told.

    Args:
        mended: the changes that would mend what is broken.
        call: its beginning, up to where `changes` come.
    """
    if not mended:
        return f"Follow that rule: {call}, changes={{…}})."
    given = given or {}
    changes = {key: value for key, value in {**given, **mended}.items() if value is not None or key not in given}
    text = json.dumps(changes)
    if len(text) > MOST_CHARACTERS:
        return f"The same call with these in its changes: {json.dumps(mended)[:MOST_CHARACTERS]}."
    return f"For example {call}, changes={text})."


def in_words(mended: dict[str, Any]) -> str:
    """Return changes as words, for a call that takes a configuration as a whole."""
    if not mended:
        return "again, with that put right"
    parts = [f"`{key}` {'left out' if value is None else json.dumps(value)}" for key, value in mended.items()]
    return f"as before with {', '.join(parts)[:MOST_CHARACTERS]}"


def apply_changes(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of `values` with dotted keys replaced; a value of None removes the key.

    Example: `apply_changes(v, {"optimizer.learning_rate": 1e-4})`. Only that the changes are plain values is checked:
    call `parse_config` after it.

    Raises:
        ConfigurationError: a key that is not dotted or goes through a single value, or a value that is not plain.
    """
    require_plain(changes)
    result: dict[str, Any] = _copy(values)
    for key, value in changes.items():
        *parents, last = parse_dotted_key(key)
        section = result
        for parent in parents:
            section = section.setdefault(parent, {})
            if not isinstance(section, dict):
                raise ConfigurationError(
                    f"`{key}` goes through `{parent}`, which holds a single value.",
                    remedy=f'Set `{parent}` as a whole, for example {{"{parent}": {{...}}}}.',
                    document=OVERVIEW,
                )
        if value is None:
            section.pop(last, None)
        else:
            section[last] = _copy(value)
    return result


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping by dotted key, as `apply_changes` takes them; lists stay whole."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        flat |= flatten(value, f"{name}.") if isinstance(value, dict) and value else {name: value}
    return flat


def parse_dotted_key(key: str) -> list[str]:
    """Split `optimizer.learning_rate` into its parts. Raises ConfigurationError on an empty part."""
    parts = key.split(".")
    if not all(parts) or len(parts) > 8:
        raise ConfigurationError(
            f"`{key[:80]}` is not a dotted key.",
            remedy="Name the key from the top, for example `optimizer.learning_rate`.",
            document=OVERVIEW,
        )
    return parts


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
