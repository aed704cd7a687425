"""Reading a configuration from YAML or JSON types, and changing single keys of it."""

from __future__ import annotations

import re
from typing import Any

import yaml

from trainwright.trainer.canonical import digest_json
from trainwright.trainer.config.documents import OVERVIEW
from trainwright.trainer.config.overlay import laid_over, split_key
from trainwright.trainer.config.plain import require_plain
from trainwright.trainer.config.schema import TrainingConfig
from trainwright.trainer.errors import ConfigurationError

MAX_YAML_BYTES = 256 * 1024


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


def apply_changes(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of `values` with changes by dotted key laid over it; a value of None removes the key.

    Example: `apply_changes(v, {"optimizer.learning_rate": 1e-4})`. Only that the changes are plain values is checked:
    call `parse_config` after it. What a caller wrote by hand is for `settle`.

    Raises:
        ConfigurationError: a key that is not dotted, or a value that is not plain.
    """
    require_plain(changes)
    return laid_over(values, {split_key(key): value for key, value in changes.items()})
