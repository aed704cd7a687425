"""YAML of an expectations file: no tags, aliases or repeated keys, and only true and false are no words."""

from __future__ import annotations

import re
from typing import Any

import yaml

from trainwright.trainer.base.plain_yaml import PlainLoader


class _Loader(PlainLoader):
    """A plain loader to which `yes`, `no`, `on` and `off` are words."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - without the booleans of YAML 1.1: `one_of: [yes, no]` are words
        sign: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
        for sign, resolvers in PlainLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), [*"tTfF"]
)


def load(text: str) -> Any:
    """Return the value of YAML text. Raises yaml.YAMLError."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of SafeLoader
    except (RecursionError, ValueError, TypeError) as error:
        raise yaml.YAMLError(str(error)[:200]) from error


def dump(values: dict[str, Any]) -> str:
    """Return the values as YAML that `load` reads as the same."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)


class _Dumper(yaml.SafeDumper):
    """A safe dumper without aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True
