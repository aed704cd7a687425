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
_EACH = r"\b(?:(?:for|in|of|per|by) (?:each|every|all)(?: of (?:the|its))?|per|by|je(?:de\w*)?|pro|für jede\w*|nach) "
_FIGURES = any_of(
    r"errors?|accurac\w+|figures?|metrics?|mae|rmse|mape|f1|scores?|performance|results?|apart|separately|"
    r"how (?:well|good)|fehler|genauigkeit|getrennt|einzeln"
)
_SENTENCE = re.compile(r"[.;!?\n](?:\s|$)")


def asked_groups(intent: str, columns: Iterable[dict[str, Any]], left_out: Iterable[str]) -> list[str]:
    """Return the columns of few values for each of which a sentence wants figures.

    Args:
        columns: as a plan's inspection has them.
        left_out: targets and columns that are no inputs.
    """
    few = [
        str(one["name"]) for one in columns if one["kind"] == "category" and 2 <= one.get("different", 0) <= MAX_GROUPS
    ]
    told = [part for part in _SENTENCE.split(intent) if _FIGURES.search(part)]
    return [name for name in few if name not in {*left_out} and any(_names(part, name) for part in told)]


def _names(text: str, column: str) -> bool:
    words = r"[\s_-]?".join(map(re.escape, re.split(r"[\s_-]+", column)))
    return re.search(rf"{_EACH}(?:the )?{words}\b", text, re.IGNORECASE) is not None


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
