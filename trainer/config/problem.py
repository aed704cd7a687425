"""One broken key of a configuration, in words and with what would mend it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Problem:
    """One broken key."""

    key: str
    """Dotted; empty for a rule between sections."""
    text: str
    """Key, value, rule, and the nearest valid key."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Dotted changes that would mend it, where some are at hand; None takes a key out."""
    others: tuple[dict[str, Any], ...] = ()
    """Other changes that would do so instead."""


def as_yaml(value: Any) -> str:
    """Return a value as it is written in YAML, cut to 60 characters."""
    text = plain_yaml(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def plain_yaml(value: Any) -> str:
    """Return a flag or null as YAML has it, and anything else as text."""
    is_word = value is None or isinstance(value, bool)
    return {True: "true", False: "false", None: "null"}[value] if is_word else str(value)
