"""Facts of an answer as they are sent: fields as JSON, measured numbers rounded, and the next call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.tools.answers import Answer

SIGNIFICANT_DIGITS = 6
AS_SET = frozenset({"next", "changed", "changes", "arguments"})
"""Keys whose values somebody set: they are shown as they were set, and not rounded."""
WAITING = frozenset({"start_training", "start_tuning", "verify_reproducibility", "export_model", "resume_training"})
"""Tools that can wait for the run or study that they start."""
WAIT_SECONDS = 50


def facts_of(answer: Answer, *, full: bool = False) -> dict[str, Any]:
    """Return the answer's facts, all of them or only what matters now, as JSON values."""
    facts: dict[str, Any] = _offered(rounded(answer.shown(full=full)))
    return facts


def offered(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a proposed call that also waits for the run it starts, for a time that every client allows."""
    arguments = dict(call.get("arguments") or {})
    if call.get("tool") in WAITING:
        arguments.setdefault("wait_seconds", WAIT_SECONDS)
    return {**call, "arguments": arguments}


def rounded(value: Any) -> Any:
    """Return the value without nulls, and with measured numbers at six digits; values that somebody set are kept."""
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: item if key in AS_SET else rounded(item) for key, item in value.items() if item is not None}
    return value


def is_call(value: Any) -> bool:
    """Return whether the value is a call that an answer proposes."""
    return isinstance(value, Mapping) and "tool" in value and set(value) <= {"tool", "arguments", "why"}


def _offered(value: Any) -> Any:
    if isinstance(value, list):
        return [_offered(item) for item in value]
    if is_call(value):
        return offered(value)
    return {key: _offered(item) for key, item in value.items()} if isinstance(value, dict) else value
