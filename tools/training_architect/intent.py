"""Hardware, money and hours that a sentence of intent names: `I have one 24 GB card and twenty dollars`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from trainwright.tools.training_architect.hardware import accelerators
from trainwright.trainer.config.goal_words import spoken_goals

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.training_architect.request import PlanRequest

WORDS = {
    "a": 1, "an": 1, "one": 1, "single": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "twelve": 12, "fifteen": 15, "sixteen": 16, "twenty": 20, "thirty": 30,
    "forty": 40, "fifty": 50, "sixty": 60, "eighty": 80, "ninety": 90, "hundred": 100,
    "eine": 1, "einer": 1, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5,
}  # fmt: skip
NUMBER = rf"(?P<n>\d+(?:[.,]\d+)?|{'|'.join(WORDS)})"
COUNT = rf"(?:\b(?P<count>\d+|{'|'.join(WORDS)})\s*(?:x|\*)?\s+)?"
COUNTED = rf"\d+\s*x|\d+|{'|'.join(WORDS)}"
UNITS = r"(?:cards?|gpus?|v?ram|accelerators?|graphics)"
MEMORY = (
    re.compile(rf"{COUNT}(?P<n>\d+)\s*-?\s*(?:gb|gib)\s+(?:of\s+)?(?:nvidia\s+|video\s+)?{UNITS}\b", re.IGNORECASE),
    re.compile(rf"{COUNT}{UNITS}\s+(?:with|of)\s+(?P<n>\d+)\s*(?:gb|gib)\b", re.IGNORECASE),
)
MONEY = (
    re.compile(r"\$\s*(?P<n>\d+(?:\.\d+)?)(?!\s*(?:/|per|an?\b)\s*h)", re.IGNORECASE),
    re.compile(rf"\b{NUMBER}\s*(?:dollars?|usd|bucks)\b(?!\s*(?:/|per|an?\b)\s*h)", re.IGNORECASE),
)
RATE = re.compile(
    r"\$?\s*(?P<n>\d+(?:\.\d+)?)\s*(?:dollars?|usd)?\s*(?:/|per|an?)\s*(?:gpu[- ])?h(?:our)?\b", re.IGNORECASE
)
TIME = re.compile(
    rf"(?:within|in|at most|have|only|under|below|innerhalb von|höchstens|maximal|binnen)\s+"
    rf"(?:(?P<half>half an hour|(?:einer )?halben? stunde)|{NUMBER}\s*(?:(?P<minutes>min(?:ute[ns]?|s)?)|hours?|h"
    r"|stunden?))\b"
    r"(?!\s+(?:ahead|into|voraus|im voraus|later|after|before|from now))",
    re.IGNORECASE,
)
SHORT = 3
"""Characters up to which a name could be a word of something else."""
NO_COUNT = r"(?!\s+[a-z]*(?:rows|samples|steps|tickets|images|texts|documents))"


def with_intent(request: PlanRequest, owners: Path | None = None) -> tuple[PlanRequest, list[str]]:
    """Return the request with what its intent names and its arguments leave out, and one sentence for each."""
    noted: list[str] = []
    read: set[str] = set()
    rest = spoken_goals(request.intent).rest  # a bound of the goal in dollars is no budget
    hardware = request.hardware or _hardware(rest, owners)
    if hardware is not None and request.hardware is None:
        noted.append(f"hardware {hardware!r} was read from the intent")
        read.add("hardware")
    limits = dict(request.limits)
    for name, value in _limits(rest).items():
        if name not in limits:
            limits[name] = value
            noted.append(f"{name} {value:g} was read from the intent")
            read.add(name)
    return replace(request, hardware=hardware, limits=limits, of_intent=frozenset(read)), noted


def _number(text: str) -> float:
    return float(WORDS.get(text.lower()) or text.replace(",", "."))


def _limits(intent: str) -> dict[str, float]:
    found: dict[str, float] = {}
    if (rate := RATE.search(intent)) is not None:
        found["dollars_per_hour"] = _number(rate["n"])
    money = next((match for pattern in MONEY if (match := pattern.search(intent)) is not None), None)
    if money is not None:
        found["dollars"] = _number(money["n"])
    if (time := TIME.search(intent)) is not None:
        found["hours"] = 0.5 if time["half"] else _number(time["n"]) / (60 if time["minutes"] else 1)
    return {name: value for name, value in found.items() if value > 0}


def _hardware(intent: str, owners: Path | None) -> str | None:
    """Return the words that name a device: an accelerator of the table, a card by its memory, or a TPU."""
    rows, _ = accelerators(owners)
    names = sorted(
        {*rows, *(alias for row in rows.values() for alias in row.get("aliases") or [])}, key=len, reverse=True
    )
    for name in names:
        if (match := _named(name, intent)) is not None:
            return _counted(match["count"], name)
    for kind in MEMORY:
        if (match := kind.search(intent)) is not None:
            return _counted(match["count"], f"{match['n']} GB card")
    tpu = re.search(r"\btpu(?:\s+v\d\w*)?", intent, re.IGNORECASE)
    return tpu[0] if tpu is not None else None


def _named(name: str, intent: str) -> re.Match[str] | None:
    """Return where a device is named; a short name (T4) in capitals, behind a number or `on`, `with`."""
    pattern = rf"{COUNT}(?<![\w.]){re.escape(name)}s?(?![\w.])"
    if len(name) <= SHORT:
        return re.search(rf"(?:\b(?:on|with|have|has|using)\s+|(?=\b(?:{COUNTED})\s)){pattern}", intent)
    if name.isdigit():  # `4090` names a card, and `4090 rows` does not
        pattern += NO_COUNT
    return re.search(pattern, intent, re.IGNORECASE)


def _counted(count: str | None, name: str) -> str:
    number = int(_number(count)) if count else 1
    return f"{number}x {name}" if number > 1 else name
