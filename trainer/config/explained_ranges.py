"""Ranges of a search that are wrong, and those that were probably meant."""

from __future__ import annotations

from typing import Any

from trainwright.trainer.base.errors import near
from trainwright.trainer.config.problem import Problem, as_yaml
from trainwright.trainer.config.schema_index import Layout

KEYS = ("type", "low", "high", "log", "choices")
FORMS = "{type: float, low: …, high: …, log: true}, {type: int, low: …, high: …} or {type: categorical, choices: […]}"
LOG_FROM = 100
"""Ratio of the ends from which a range is searched on a logarithmic scale, where nothing is said."""


def broken_range(problem: Any, location: list[str], given: Any, layout: Layout) -> Problem:
    """Say how a range of a search is written, with the one that was probably meant.

    Args:
        location: `search`, `space`, the key that is searched over, and a key of the range where one is broken.
    """
    name = location[2]
    key, whole = f"search.space.{name}", layout.value_at(["search", "space", name])
    broken = ".".join([key, *location[3:]])
    reason = str(problem["msg"]).removeprefix("Value error, ")
    if isinstance(whole, list):
        return _of_list(key, whole)
    if not isinstance(whole, dict):
        return Problem(key, f"`{key}` = {as_yaml(whole)}: a range is {FORMS}", {key: None})
    if problem["type"] == "extra_forbidden":
        return _unknown(key, location[-1], whole)
    if problem["type"] == "value_error":
        return Problem(key, f"`{key}` = {as_yaml(given)}: {reason}", _ordered(key, whole))
    if problem["type"].startswith("union_tag") or problem["type"] == "missing":
        text = f"`{broken}` is required, and missing" if problem["type"] == "missing" else f"`{key}` = {as_yaml(given)}"
        return Problem(broken, f"{text}: a range is {FORMS}", {key: None})
    return Problem(broken, f"`{broken}` = {as_yaml(given)}: {reason}", {key: None})


def _of_list(key: str, whole: list[Any]) -> Problem:
    """Read two numbers as the ends of a range, or as two choices."""
    text = f"`{key}` = {as_yaml(whole)}: a range is {FORMS}"
    if len(whole) != 2 or not all(isinstance(one, int | float) and not isinstance(one, bool) for one in whole):
        return Problem(key, text, {key: None})
    low, high = sorted(whole)
    kind = "int" if isinstance(low, int) and isinstance(high, int) else "float"
    log = {"log": True} if low > 0 and high / low >= LOG_FROM else {}
    either = {"type": "categorical", "choices": whole}
    return Problem(key, text, {key: {"type": kind, "low": low, "high": high, **log}}, ({key: either},))


def _unknown(key: str, last: str, whole: dict[str, Any]) -> Problem:
    free = [name for name in KEYS if name not in whole]
    meant = near(last, free, cutoff=0.6)
    hint = f"did you mean `{key}.{meant[0]}`?" if meant else f"known: {', '.join(KEYS)}"
    mended = {
        meant[0] if name == last and meant else name: value for name, value in whole.items() if name != last or meant
    }
    return Problem(f"{key}.{last}", f"unknown key `{key}.{last}`; {hint}", {key: mended})


def _ordered(key: str, whole: dict[str, Any]) -> dict[str, Any]:
    """Put the ends in their order, and take the logarithmic scale from a range that reaches 0."""
    low, high = sorted([whole["low"], whole["high"]])
    log = {"log": False} if whole.get("log") and low <= 0 else {}
    return {key: {**whole, "low": low, "high": high, **log} if low < high else None}
