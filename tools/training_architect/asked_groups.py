"""Groups of rows that a plan tells of: those that a sentence wants figures for, and names that several rows share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from trainwright.trainer.config.goal_words import any_of

MAX_GROUPS = 20
"""More values of a column are no groups to read the figures of."""
LEAST_NAMES, MOST_NAMES = 0.3, 0.95
"""Share of the rows that have a name of their own where it is of things that come several times."""
TIME = re.compile(r"time|date|zeit|datum|^(?:day|year|month|tag|jahr|monat)s?$", re.IGNORECASE)
_EACH = r"\b(?:(?:each|every|jede\w*)(?: of (?:the|its))?|(?:for|in|of|per|by) all|per|by|je|pro|nach) (?:the )?"
_JOINED = r"(?:,? (?:and|or|und|oder|sowie) |, )(?:(?:by|per|for)? ?(?:each|every|jede\w*) )?(?:the )?"
_FIGURES = any_of(
    r"errors?|accurac\w+|figures?|metrics?|mae|rmse|mape|r2|f1|(?:roc )?auc|precision|recall|dice|loss|scores?"
    r"|performance|results?|apart|separately|how (?:well|good)|fehler|genauigkeit|getrennt|einzeln"
)
_SENTENCE = re.compile(r"[.;!?\n](?:\s|$)")


def asked_groups(intent: str, columns: Iterable[dict[str, Any]], left_out: Iterable[str | None]) -> list[str]:
    """Return the columns of few values for each of which a sentence wants figures.

    Args:
        columns: as a plan's inspection has them.
        left_out: targets and columns that are no inputs.
    """
    few = [
        str(one["name"]) for one in columns if one["kind"] == "category" and 2 <= one.get("different", 0) <= MAX_GROUPS
    ]
    named = {_words(name): name for name in few if name not in {*left_out}}
    if not named:
        return []
    one = "|".join(sorted(named, key=len, reverse=True))
    listed = re.compile(rf"{_EACH}(?:{one})\b(?:{_JOINED}(?:{one})\b)*", re.IGNORECASE)
    told = [part for part in _SENTENCE.split(intent) if _FIGURES.search(part)]
    found = " ".join(match[0] for part in told for match in listed.finditer(part))
    return [name for words, name in named.items() if re.search(rf"\b{words}\b", found, re.IGNORECASE)]


def _words(column: str) -> str:
    return r"[\s_-]?".join(map(re.escape, re.split(r"[\s_-]+", column)))


def shared_names(columns: Iterable[dict[str, Any]], rows: int, left_out: Iterable[str]) -> str:
    """Return the advice on a column of text whose values several rows share, mostly of one thing; empty without one.

    Args:
        rows: that were read for the columns.
        left_out: targets and columns that are no inputs.
    """
    found = [
        f"{one['name']!r} has {one['different']} values in {rows} rows"
        for one in columns
        if one["kind"] == "category" and not one.get("of_numbers") and one["name"] not in {*left_out}
        and LEAST_NAMES * rows <= one["different"] <= MOST_NAMES * rows and not TIME.search(one["name"])
    ]  # fmt: skip
    if not found:
        return ""
    name = found[0].partition(" has ")[0].strip("'")
    return (
        f"{found[0]}, so rows of one may be alike and lie on both sides of the split: where the model is for values "
        f"that it never saw, data.split {{by: group, group: {name}}} keeps them together"
    )
