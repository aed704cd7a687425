"""Text of calls and numbers, the same in answers, errors and the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.tools.answers import NextCall


def call_text(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as it is written: `run_status(run_id="…", wait_seconds=50)`."""
    return (
        f"{tool}({', '.join(f'{name}={json.dumps(value, ensure_ascii=False)}' for name, value in arguments.items())})"
    )


def next_line(call: NextCall | None) -> str:
    """Return the next call as one line, or nothing."""
    if call is None:
        return ""
    why = f" - {call.why}" if call.why else ""
    return f"Next: {call_text(call.tool, call.arguments)}{why}"


def counted(count: int, what: str) -> str:
    """Return a count with its noun: `1 alert`, `2 alerts`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def number(value: float | None) -> str:
    """Return a number short enough to read: four significant digits."""
    return "-" if value is None else f"{value:.4g}"
