"""ROUGE in plain Python: how much of a wanted text a written one has, by words (Lin 2004, ROUGE-N and ROUGE-L).

As the package rouge-score counts without stemming; words are letters and digits of any alphabet, in lower case.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

WORD = re.compile(r"[^\W_]+")


def rouge(name: str, written: Sequence[str], wanted: Sequence[str]) -> float:
    """Return the mean F1 of a measure in OF_TEXTS over texts, (texts,) each; NaN of none."""
    compute = OF_TEXTS[name]
    found = [compute(words(one), words(other)) for one, other in zip(written, wanted, strict=True)]
    return sum(found) / len(found) if found else math.nan


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return WORD.findall(text.lower())


def of_n(size: int) -> Callable[[Sequence[str], Sequence[str]], float]:
    """Return the F1 of runs of so many words that two lists of words share, each as often as both have it."""

    def compute(written: Sequence[str], wanted: Sequence[str]) -> float:
        one, other = (
            Counter(tuple(each[start : start + size]) for start in range(len(each) - size + 1))
            for each in (written, wanted)
        )
        return _f1((one & other).total(), one.total(), other.total())

    return compute


def longest(written: Sequence[str], wanted: Sequence[str]) -> float:
    """Return the F1 of the longest common subsequence of two lists of words."""
    row = [0] * (len(wanted) + 1)
    for word in written:
        before = 0
        for place, other in enumerate(wanted, start=1):
            kept = row[place]
            row[place] = before + 1 if word == other else max(row[place], row[place - 1])
            before = kept
    return _f1(row[-1], len(written), len(wanted))


OF_TEXTS: dict[str, Callable[[Sequence[str], Sequence[str]], float]] = {
    "rouge_1": of_n(1),
    "rouge_2": of_n(2),
    "rouge_l": longest,
}


def _f1(shared: int, one: int, other: int) -> float:
    return 2.0 * shared / (one + other) if shared else 0.0
