"""Markdown of any answer, compact and with every fact of it, for clients that pass on text alone.

One renderer for all answers, so that a new field of an answer appears in its text without another line
here: scalars side by side, rows of one shape as a table, everything else as nested lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.text import visible_lines

if TYPE_CHECKING:
    from trainwright.tools.answers import Answer, NextCall

LONGEST_INLINE = 160


def markdown(facts: Mapping[str, Any], headline: str = "", omit: frozenset[str] = frozenset()) -> str:
    """Return the answer as text: its headline, its facts, and the next call as the last line.

    Args:
        facts: the structured answer, JSON values only.
        omit: fields that the headline already reports, under their names in the answer.
    """
    shown = {key: value for key, value in facts.items() if key != "next" and key not in omit and not _is_void(value)}
    scalars = {key: value for key, value in shown.items() if _is_short(value)}
    line = "; ".join(f"{key}: {_inline(value)}" for key, value in scalars.items())
    lines = [headline, line, *(row for key, value in shown.items() if key not in scalars for row in _block(key, value))]
    if isinstance(following := facts.get("next"), Mapping):
        lines.append(f"Next: {_call(following)}")
    return visible_lines("\n".join(part for part in lines if part))


def _block(key: str, value: Any, indent: str = "") -> list[str]:
    """Return the lines of one field that does not fit into a line with others."""
    if isinstance(value, str):
        return _text(key, value, indent)
    if isinstance(value, Mapping) and not is_call(value):
        return _mapping(key, value, indent)
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return _rows(key, value, indent)
    if isinstance(value, list) and any(_is_sentence(item) for item in value):
        return [f"{indent}{key}:", *(line for item in value for line in _bulleted(str(item), indent))]
    return [f"{indent}{key}: {_inline(value)}"]


def _mapping(key: str, value: Mapping[str, Any], indent: str) -> list[str]:
    inline = f"{indent}{key}: {_inline(value, bare=True)}"
    if len(inline) <= LONGEST_INLINE and "\n" not in inline:
        return [inline]
    inner = {name: item for name, item in value.items() if _is_said(item)}
    together = {name: item for name, item in inner.items() if _is_short(item)}
    first = f"{indent}{key}: " + "; ".join(f"{name} {_inline(item)}" for name, item in together.items())
    others = (
        line for name, item in inner.items() if name not in together for line in _block(name, item, indent + "  ")
    )
    return [first.rstrip(), *others]


def _rows(key: str, items: list[Any], indent: str) -> list[str]:
    """Return a table if all rows have one shape and plain values; otherwise a list."""
    rows = [{name: item for name, item in row.items() if not _is_void(item)} for row in items if isinstance(row, dict)]
    names = list(dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row))
    is_plain = len(rows) == len(items) > 1 and all(_is_short(item) for row in rows for item in row.values())
    if is_plain and sum(len(row) for row in rows) > len(names) * len(rows) * 0.7:
        table = [[_inline(row[name]).replace("|", "/") if name in row else "-" for name in names] for row in rows]
        return [f"{indent}{key}: | {' | '.join(names)}", *(f"{indent}- {' | '.join(cells)}" for cells in table)]
    lines = [f"{indent}{key}:"]
    for item in items:
        if not isinstance(item, Mapping):
            lines += _bulleted(_inline(item), indent)
            continue
        first, *more = markdown_item(item)
        lines += [f"{indent}- {first}", *(f"{indent}  {line}" for line in more)]
    return lines


def markdown_item(item: Mapping[str, Any]) -> list[str]:
    """Return the lines of one entry of a list: its short facts first, then the long ones."""
    shown = {name: value for name, value in item.items() if not _is_void(value)}
    calls = {name: value for name, value in shown.items() if is_call(value)}
    short = {name: value for name, value in shown.items() if _is_short(value)} | calls
    first = "; ".join(f"{name}: {_inline(value)}" for name, value in short.items())
    return [first, *(line for name, value in shown.items() if name not in short for line in _block(name, value))]


def _text(key: str, value: str, indent: str) -> list[str]:
    first, *more = value.splitlines() or [""]
    return (
        [f"{indent}{key}: {first}"]
        if not more
        else [f"{indent}{key}:", *(f"{indent}  {line}" for line in [first, *more])]
    )


def _bulleted(text: str, indent: str) -> list[str]:
    first, *more = text.splitlines() or [""]
    return [f"{indent}- {first}", *(f"{indent}  {line}" for line in more)]


def _inline(value: Any, *, bare: bool = False) -> str:
    """Return a value within a line. `bare` leaves the braces of a mapping out."""
    if isinstance(value, str):
        return value
    if is_call(value):
        return _call(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{name} {_inline(item)}" for name, item in value.items() if _is_said(item))
        return inner if bare else f"{{{inner}}}"
    if isinstance(value, list):
        return (
            ", ".join(_inline(item) for item in value)
            if all(isinstance(item, str) for item in value)
            else (f"[{', '.join(_inline(item) for item in value)}]")
        )
    return json.dumps(value)


def _call(call: Mapping[str, Any]) -> str:
    why = f" - {call['why']}" if call.get("why") else ""
    return f"{call_text(call['tool'], call.get('arguments') or {})}{why}"


def _is_void(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _is_said(value: Any) -> bool:
    """Return whether a value within a mapping is shown: null too, which removes a key (of facts nulls are left out)."""
    return value is None or not _is_void(value)


def _is_sentence(value: Any) -> bool:
    """Return whether the value needs a line of its own."""
    return isinstance(value, str) and ("\n" in value or ", " in value or len(value) > LONGEST_INLINE // 2)


def _is_short(value: Any) -> bool:
    """Return whether the value fits into a line with others."""
    if isinstance(value, str):
        return "\n" not in value and len(value) <= LONGEST_INLINE
    return not isinstance(value, Mapping | list) or _is_pair(value)


def _is_pair(value: Any) -> bool:
    """Return whether the value is two numbers: bounds of something."""
    return isinstance(value, list) and len(value) == 2 and all(isinstance(one, int | float) for one in value)


# Text of calls and numbers, the same in answers, errors and the terminal.


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


# Facts of an answer as they are sent: fields as JSON, measured numbers rounded, and the next call.

SIGNIFICANT_DIGITS = 6
AS_SET = frozenset({"next", "changed", "changes", "arguments"})
"""Keys whose values somebody set: they are shown as they were set, and not rounded."""
WAITING = frozenset({"start_training", "start_tuning", "verify_reproducibility", "export_model", "resume_training"})
"""Tools that can wait for the run or study that they start."""
WAIT_SECONDS = 50
PATIENT_SECONDS: ContextVar[int | None] = ContextVar("patient_seconds", default=None)
"""How long proposed calls wait instead, where the client of this call hears progress."""


def facts_of(answer: Answer, *, full: bool = False) -> dict[str, Any]:
    """Return the answer's facts, all of them or only what matters now, as JSON values."""
    facts: dict[str, Any] = _offered(rounded(answer.shown(full=full)))
    return facts


def offered(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a proposed call that also waits for the run it starts, for a time that the client allows."""
    arguments, patient = dict(call.get("arguments") or {}), PATIENT_SECONDS.get()
    if call.get("tool") in WAITING:
        arguments.setdefault("wait_seconds", WAIT_SECONDS)
    if patient is not None and ("wait_seconds" in arguments or call.get("tool") == "advance"):
        arguments["wait_seconds"] = patient
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
