"""The two classes of a column: their names by number, and which one a sentence means with `F1 of the class spam`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

OF = r"(?:of|on|for|der|des|für)\s+(?:(?:the|die|der)\s+)?"
QUOTE = "[\"'`]?"


def of_two_classes(data: Mapping[str, Any], target: str | None, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the names of two classes in the order of their numbers, the number of each spelling, class 1's share.

    Args:
        data: what the inspection found.
        target: the column that is predicted.
        labels: spellings that are joined or renamed (data.args.labels).
    """
    counts: Mapping[str, int] = {**data, **(data.get("counts") or {}).get(target, {})}.get("classes") or {}
    called = {name: labels.get(name, name) for name in counts}
    names = sorted(set(called.values()), key=str)
    if all(map(_is_number, names)):
        names.sort(key=float)  # as data/sources/targets.py numbers them
    if len(names) != 2:
        return {}
    spellings = {**{name: name for name in names}, **called}
    numbers = {spelling: names.index(name) for spelling, name in spellings.items()}
    ones = sum(count for name, count in counts.items() if called[name] == names[1])
    found = {"class_names": names, "class_numbers": numbers}
    return found | ({"share_of_class_1": ones / sum(counts.values())} if sum(counts.values()) else {})


def class_beside(text: str, metric: tuple[int, int], numbers: Mapping[str, int]) -> int | None:
    """Return the number of the class that a sentence names behind a metric; None where it names none.

    Args:
        text: the sentence.
        metric: where the metric stands in it.
        numbers: of each class, by its name; one that is a number itself is named as `class 1`.
    """
    spoken = [name for name in numbers if not _is_number(name)]
    names, words = ("|".join(map(re.escape, some)) or "(?!)" for some in (numbers, spoken))
    named = rf"(?:(?:class|klasse)\s+{QUOTE}(?P<name>{names})|{QUOTE}(?P<word>{words}))(?![\w%]|[.,]\d)"
    found = re.search(OF + named, text[metric[0] :], re.IGNORECASE)
    if found is None or text[metric[1] : max(metric[0] + found.start(), metric[1])].strip():
        return None
    name = (found["name"] or found["word"]).lower()
    return next(number for spelling, number in numbers.items() if spelling.lower() == name)


def turned_round(names: list[str]) -> str:
    """Return how the first of two classes becomes number 1."""
    labels = {name: f"{number} {name}" for number, name in enumerate(reversed(names))}
    return f"data.args.labels={labels} turns them round"


def _is_number(name: str) -> bool:
    return re.fullmatch(r"[-+]?\d+(?:\.\d+)?", name) is not None
