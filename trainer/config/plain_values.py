"""Plain values of a configuration: read from YAML or JSON types, laid over each other, written, digested."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

import yaml

from trainwright.trainer.base.canonical import canonical_json, digest_json
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.plain_yaml import PlainLoader
from trainwright.trainer.base.secrets import secret_in
from trainwright.trainer.config.error_text import OVERVIEW, document_for
from trainwright.trainer.config.schema import TrainingConfig
from trainwright.trainer.config.schema_index import DEFAULT_FORMS, Layout

Path = tuple[str, ...]
MAX_SHOWN = 100
MAX_PARTS = 8
OWN = "own"
"""Form of a section whose part is user code, regardless of the name beside its `use`."""
PARTS = ("model", "data", "loss", "curriculum")
"""Sections whose `args` belong to the part that `use` names."""


def split_key(key: str) -> Path:
    """Split `optimizer.learning_rate` into its parts. Raises ConfigurationError on an empty part."""
    parts = tuple(part.strip() for part in key.split("."))
    if not all(parts) or len(parts) > MAX_PARTS:
        raise ConfigurationError(
            f"`{key[:80]}` is not a dotted key.",
            remedy="Name the key from the top, for example `optimizer.learning_rate`.",
            document=OVERVIEW,
        )
    return parts


def laid_over(base: dict[str, Any], leaves: dict[Path, Any]) -> dict[str, Any]:
    """Return a copy of `base` with the leaves laid over it; those that hold others come first."""
    result: dict[str, Any] = copied(base)
    for path in sorted(leaves, key=len):
        put(result, path, leaves[path])
    return result


def put(values: dict[str, Any], path: Path, value: Any) -> None:
    """Set the value at a path in place, or take it out where it is None.

    Raises:
        ConfigurationError: the path goes through a single value.
    """
    *parents, last = path
    for place, parent in enumerate(parents):
        inner = values.get(parent)
        if not isinstance(inner, dict):
            if value is None:
                return
            inner = values[parent] = _opened(inner, path, place)
        values = inner
    if value is None:
        values.pop(last, None)
    else:
        values[last] = copied(value)


def _opened(given: Any, path: Path, place: int) -> dict[str, Any]:
    """Return the section that null or the bare name of a loss means."""
    if given is None:
        return {}
    if isinstance(given, str) and path[place] == "loss":
        return {"use": given}
    parent = path[place]
    raise ConfigurationError(
        f"`{'.'.join(path)}` goes through `{parent}`, which holds a single value.",
        remedy=f'Set `{parent}` as a whole, for example {{"{parent}": {{...}}}}.',
        document=OVERVIEW,
        details={"changes": {".".join(path): None}},
    )


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping by dotted key, as `apply_changes` takes them; lists stay lists."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        flat |= flatten(value, f"{name}.") if isinstance(value, dict) and value else {name: value}
    return flat


def leaves(values: dict[str, Any]) -> dict[str, Any]:
    """Return `flatten` without empty sections: beside a filled one, its keys alone differ."""
    return {key: value for key, value in flatten(values).items() if value != {}}


def left_over(base: dict[str, Any], new: dict[str, Any], given: dict[Path, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the keys of `base` that the form or part chosen by now does not take, each with a sentence.

    Args:
        given: this call's explicit changes: they are refused rather than left out.
    """
    for section in (*DEFAULT_FORMS, *PARTS):
        old, now = base.get(section), new.get(section)
        if not isinstance(old, dict) or not isinstance(now, dict):
            continue
        use, args = now.get("use"), old.get("args")
        if section in PARTS:
            if use != old.get("use") and isinstance(args, dict) and (section, "args") not in given:
                yield (section, "args"), f"{section}.args {shown(args)} of before left out: {use} has its own"
            continue
        asked = {path[1] for path in given if path[0] == section and len(path) > 1}
        is_own = use is not None and ("use" in asked or "name" not in asked)
        form = OWN if is_own else str(now.get("name", DEFAULT_FORMS[section]))
        model = Layout(new).forms([section]).get(form)
        taken = old.keys() if model is None else model.model_fields.keys() - ({"name"} if is_own else set())
        for key in (key for key in old if key not in taken and key not in asked):
            yield (section, key), f"{section}.{key} {shown(old[key])} of before left out: {form} does not take it"


def shown(value: Any) -> str:
    """Return a value as JSON, cut to 100 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def equal(one: Any, other: Any) -> bool:
    """Return whether two values are the same as JSON, with 1, 1.0 and true distinct."""
    return json.dumps(one, default=str) == json.dumps(other, default=str)


def copied(value: Any) -> Any:
    """Return a deep copy of plain values."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


MAX_BYTES = 256 * 1024
"""Of a complete configuration, as canonical JSON."""
MAX_DEPTH = 32
WITHOUT_IT = (
    "Make the same call without that value; a database's URL is named by `url_env`, a store's keys by `storage`."
)
_MAX_PROBLEMS = 8
_INTEGERS = range(-(2**63), 2**63)


def require_plain(values: dict[str, Any]) -> None:
    """Refuse values that have no canonical JSON, before anything is computed from them.

    Raises:
        ConfigurationError: a float that is not finite, a type that JSON does not have, an integer beyond 64 bits, a
            key that is no text, text that is not Unicode, a URL with a password or a token in it (which the error
            does not repeat), more than 32 levels, or more than 256 KiB in all.
    """
    problems = list(islice(_problems(values, (), 1), _MAX_PROBLEMS))
    if problems:
        key = problems[0].split("`")[1]
        kept = "Give finite numbers, text, true, false, lists and mappings for these keys, for example with "
        kept += f"configure(project='…', changes={{'{key}': …}})."
        raise ConfigurationError(
            "The configuration holds values that it cannot keep: " + "; ".join(problems) + ".",
            remedy=WITHOUT_IT if "password" in problems[0] else kept,
            document=document_for([key]),
            details={"problems": problems},
        )
    sizes = {key: _bytes({key: value}) for key, value in values.items()}
    if sum(sizes.values()) > MAX_BYTES:
        largest = max(sizes, key=lambda key: sizes[key])
        raise ConfigurationError(
            f"The configuration is longer than {MAX_BYTES} bytes of JSON: {sum(sizes.values())}, of which "
            f"`{largest[:80]}` takes {sizes[largest]}.",
            remedy="Put long values into a file under code_root, and its path into the configuration.",
            document=OVERVIEW,
        )


def _problems(value: Any, path: tuple[str, ...], depth: int) -> Iterator[str]:
    """Yield one text for each value that is not plain."""
    if isinstance(value, dict | list) and depth > MAX_DEPTH:
        yield f"`{_key(*path[:3])}…` nests deeper than {MAX_DEPTH} levels"
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not _is_unicode(key):
                yield f"`{_key(*path, ascii(key))}`: keys must be text (in YAML, quote it)"
            else:
                yield from _problems(item, (*path, key), depth + 1)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _problems(item, (*path, str(place)), depth + 1)
    elif isinstance(value, str) and (secret := secret_in(value)) is not None:
        yield f"`{_key(*path)}`: {secret}"
    elif (rule := _broken_rule(value)) is not None:
        yield f"`{_key(*path)}` = {_shown(value)}: {rule}"


def _broken_rule(value: Any) -> str | None:
    if isinstance(value, float):
        return None if math.isfinite(value) else "a number must be finite"
    if isinstance(value, int):
        return None if value in _INTEGERS else "an integer must fit into 64 bits (write a float, or text)"
    if isinstance(value, str):
        return None if _is_unicode(value) else "text must be Unicode (no lone surrogates)"
    if value is None:
        return None
    return f"a {type(value).__name__} is no JSON type (write a list, or text in quotes)"


def _key(*path: str) -> str:
    key = ".".join(path)
    return key if len(key) <= 200 else key[:197] + "..."


def _shown(value: Any) -> str:
    is_long = isinstance(value, int) and value.bit_length() > 1024  # more digits than Python prints
    text = f"an integer of {value.bit_length()} bits" if is_long else ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bytes(value: Any) -> int:
    return len(canonical_json(value).encode())


MAX_YAML_BYTES = 256 * 1024


def load_yaml(text: str, *, source: str = "the configuration") -> dict[str, Any]:
    """Read a YAML mapping without tags, aliases or repeated keys.

    Raises:
        ConfigurationError: the text is too long, not YAML, or not a mapping.
    """
    remedy = "Send a plain YAML mapping; read_document('configs/README.md') shows one."
    if len(text.encode()) > MAX_YAML_BYTES:
        raise ConfigurationError(f"{source} is longer than {MAX_YAML_BYTES} bytes.", remedy=remedy, document=OVERVIEW)
    try:
        value = copied(_loaded(text))
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ConfigurationError(f"{source} is not valid YAML: {reason}", remedy=remedy, document=OVERVIEW) from error
    if not isinstance(value, dict):
        raise ConfigurationError(
            f"{source} is a {type(value).__name__}; it must be a mapping.", remedy=remedy, document=OVERVIEW
        )
    return value


@lru_cache(maxsize=32)
def _loaded(text: str) -> Any:
    """Parse a text once: PyYAML takes 20 ms for an owner's settings."""
    return yaml.load(text, Loader=PlainLoader)  # noqa: S506 - a subclass of SafeLoader


def dump_yaml(value: dict[str, Any]) -> str:
    """Return the mapping as YAML in its key order."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)


NOT_OF_A_RUN: dict[str, Any] = {
    **dict.fromkeys(("search", "monitoring", "deployment"), True),
    "logging": {"mlflow", "wandb", "trace_steps"},
}
"""Sections, and keys of one, on which no bit of a run depends."""


def config_digest(config: TrainingConfig) -> str:
    """Return the digest of all that a run depends on, defaults filled in.

    Not `search` or `monitoring`, which change no step, nor `deployment`: another format repeats an export, no training.
    Nor which programs show it, or whether steps are traced: neither changes a bit. Nor the reference that a release
    stands beside, with the section that it alone is in.
    """
    if config.reference is not None and config.evaluation_gate is not None:
        gate = config.evaluation_gate.model_copy(update={"reference": None})
        config = config.model_copy(update={"evaluation_gate": gate if gate != type(gate)() else None})
    return digest_json(config.model_dump(mode="json", exclude=NOT_OF_A_RUN))


def apply_changes(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of `values` with changes by dotted key laid over it; a value of None removes the key.

    Example: `apply_changes(v, {"optimizer.learning_rate": 1e-4})`. Only that the changes are plain values is checked:
    call `parse_config` after it. A caller's handwritten changes go through `settle`.

    Raises:
        ConfigurationError: a key that is not dotted, or a value that is not plain.
    """
    require_plain(changes)
    return laid_over(values, {split_key(key): value for key, value in changes.items()})
