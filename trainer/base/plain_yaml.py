"""YAML without surprises: no tags, aliases or repeated keys, and `1e-3` is a number."""

from __future__ import annotations

import re
from typing import Any

import yaml


class PlainLoader(yaml.SafeLoader):
    """A safe loader that refuses aliases (the building block of YAML bombs) and repeated keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node. Raises yaml.YAMLError for an alias."""
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Return a mapping. Raises yaml.YAMLError for a key that is given twice."""
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        repeated = sorted({str(key) for key in keys if keys.count(key) > 1})
        if repeated:
            raise yaml.YAMLError(f"key given twice: {', '.join(repeated)}")
        return super().construct_mapping(node, deep=deep)


# YAML 1.1 reads `1e-3` as a string; the field writes learning rates that way.
PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)
