"""Judging what was understood: right, refused in words, wrong, or unclear."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from at_planning import Seen
from case import EITHER, READ, REFUSED, Case, Column

RIGHT, IN_WORDS, WRONG, UNCLEAR = "right", "refused_in_words", "wrong", "unclear"
VERDICTS = (RIGHT, IN_WORDS, WRONG, UNCLEAR)
CRASHED = re.compile(
    r"Traceback|File \"(<string>|.*/src/trainwright/)"
    r"|The worker failed|incident [0-9a-f]{8}|Read the last lines of worker\.log"
)
"""A traceback of the user's own code is none of these."""
MISLEADING = re.compile(
    r"""Name one of its columns: (sep=|\#|<|PK|version\s|Report|[-\d.]+,)|["']without["']:"""
    r"""|encoding to "[\w-]+" if that"""
)
"""Remedies that lead astray: the first line's cells as names, checks left out, an encoding for what is no text."""
CLOSE = 2e-4
"""Relative; inputs are of float32."""


def verdict(case: Case, seen: Seen) -> tuple[str, str]:
    """Return the verdict, and why it is not right."""
    right = case.right
    if seen.refused:
        unclear = _unclear(case, seen.refused)
        return (UNCLEAR, f"{unclear}: {_short(seen.refused)}") if unclear else (IN_WORDS, "")
    if right.may == REFUSED:
        return WRONG, "is to be refused, and was taken" + _understood(seen)
    if absent := _absent(right.named, seen.text):
        return WRONG, "nothing is said of " + ", ".join(absent) + _understood(seen)
    wrong = next((fault for fault in _faults(case, seen) if fault), "")
    of_column = re.match(r"kind of (\S+) is", wrong)
    is_named = right.may == EITHER and of_column and not _absent(right.words, _told(of_column[1], seen))
    return (IN_WORDS if is_named else WRONG, wrong) if wrong else (RIGHT, "")


def _unclear(case: Case, text: str) -> str:
    """Return why a refusal is no answer; nothing where it is the right one."""
    if found := CRASHED.search(text):
        return f"crash ({found[0]})"
    if (found := MISLEADING.search(text)) and not case.right.may_encode:
        return f"misleading ({found[0]})"
    absent = _absent(case.right.words, text)
    return "lacks " + ", ".join(absent) if absent else "is to be read" if case.right.may == READ else ""


def _faults(case: Case, seen: Seen) -> Iterable[str]:
    """Yield what differs from the right understanding: of the whole column, and of every row in the evidence."""
    right, data = case.right, seen.data
    size = sum(split["size"] for split in data["splits"].values())
    if right.rows is not None and size != right.rows:
        yield f"{size} rows instead of {right.rows}"
    names = data.get("class_names")
    if right.target == "number" and names is not None:
        yield f"the target is classes ({len(names)}: {', '.join(names[:4])}) instead of a number"
    if right.target is not None and not isinstance(right.target, str):
        wanted = [str(name) for name in right.target]
        if names is None:
            yield "the target is a number instead of classes"
        elif sorted(map(_plain, names)) != sorted(map(_plain, wanted)):
            yield f"the classes are {names[:8]} instead of {wanted[:8]}"
    target = case.config.get("data", {}).get("args", {}).get("target")
    for name, column in right.columns.items():
        yield _of_target(column, seen) if name == target else _of_column(name, column, seen)
    yield right.holds(seen) if right.holds is not None else ""


def _of_target(column: Column, seen: Seen) -> str:
    names = seen.data.get("class_names")
    if not column.kinds or not len(column.meant):
        return ""
    for row, value in zip(seen.keys, seen.targets.reshape(-1).tolist(), strict=True):
        meant = column.meant[row]
        if meant is None:
            continue
        found = names[round(value)] if names is not None else value
        is_same = _plain(str(found)) == _plain(str(meant)) if names is not None else _equal(found, float(meant))
        if not is_same:
            return f"the target {column.cells[row]!r} became {found!r} instead of {meant!r}"
    return ""


def _of_column(name: str, column: Column, seen: Seen) -> str:
    kind, reason = next(((one["kind"], one["reason"]) for one in seen.data["columns"] if one["name"] == name), ("", ""))
    if not column.kinds or not len(column.meant):
        return ""
    if kind not in column.kinds:
        return f"kind of {name} is {kind} ({reason}) instead of {' or '.join(column.kinds)}"
    place = seen.data["places"].get(name)
    if place is None:
        return ""
    for row, values in zip(seen.keys, seen.inputs.tolist(), strict=True):
        meant = column.meant[row]
        fault = _of_cell(kind, meant, values[place:], seen.data["categories"].get(name))
        if fault:
            return f"{name}: {column.cells[row]!r} became {fault} instead of {meant!r}"
    return ""


def _of_cell(kind: str, meant: Any, values: list[float], categories: list[str] | None) -> str:
    value = values[0]
    if kind == "category":
        names = categories or []
        found = names[round(value)] if value >= 0 and round(value) < len(names) else None
        return "" if meant is None or found is None or _plain(found) == _plain(str(meant)) else repr(found)
    if meant is None or (isinstance(meant, tuple) and meant[0] is None):
        return "" if math.isnan(value) else repr(value)
    if kind == "date":
        is_day = abs(value - meant[0]) <= (1 if meant[1] is None else 0)
        is_time = meant[1] is None or meant[1] < 0 or _equal(values[1], meant[1])
        return "" if is_day and is_time else repr(values[:2])
    return "" if _equal(value, float(meant)) else repr(value)


def _equal(found: float, meant: float) -> bool:
    return abs(found - meant) <= CLOSE * max(1.0, abs(meant))


def _plain(name: str) -> str:
    """Return a class's name; a whole number has one name, whether it was written 1 or 1.0."""
    try:
        return f"{float(name):g}" if name.strip() and not name.strip().lstrip("-").startswith("0") else name.lower()
    except ValueError:
        return name.lower() if name.lower() in {"true", "false"} else name


def _absent(words: Iterable[str], text: str) -> list[str]:
    return [word for word in words if not re.search(word, text, re.IGNORECASE)]


def _told(name: str, seen: Seen) -> str:
    """Return what is said of a column: its reason, and the lines of the answers that name it."""
    reasons = [f"{one['name']}: {one['reason']}" for one in seen.data.get("columns") or [] if one["name"] == name]
    named = [line for line in seen.text.splitlines() if re.search(rf"\b{re.escape(name)}\b", line)]
    return "\n".join([*reasons, *named])


def _understood(seen: Seen) -> str:
    names = seen.data.get("class_names")
    kinds = ", ".join(f"{one['name']} {one['kind']}" for one in seen.data.get("columns") or [])
    return f" (target: {'number' if names is None else names[:6]}; {kinds[:200]})"


def _short(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("checks:", "Run "))]
    return " | ".join(lines)[:600]
