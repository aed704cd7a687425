"""Values of the present configuration by dotted key, defaults included."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from trainwright.trainer.config import flatten, parse_config
from trainwright.trainer.config.schema_index import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping


class Present:
    """The configuration that a study's trials change, read once."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    @cached_property
    def _whole(self) -> dict[str, Any]:
        return parse_config(self._values).model_dump(mode="json")

    def has(self, key: str) -> bool:
        """Return whether the configuration has such a key, or may have."""
        parts = key.split(".")
        found, _ = self._find(parts)
        layout = Layout(self._whole)
        return found or (not layout.is_unknown(parts) and bool(layout.known_keys(parts[:-1]) or "args" in parts))

    def keys(self) -> list[str]:
        """Return every dotted key that has a value."""
        return list(flatten(self._whole))

    def value(self, key: str) -> Any:
        """Return a key's value, or its default; None where it has neither."""
        parts = key.split(".")
        found, value = self._find(parts)
        if found:
            return value
        for model in Layout(self._whole).models_at(parts[:-1]):  # a built-in part's argument that was left out
            about = model.model_fields.get(parts[-1])
            if about is not None and not about.is_required():
                return about.get_default(call_default_factory=True)
        return None

    def _find(self, parts: list[str]) -> tuple[bool, Any]:
        value: Any = self._whole
        for part in parts:
            if not isinstance(value, dict) or part not in value:
                return False, None
            value = value[part]
        return True, value
