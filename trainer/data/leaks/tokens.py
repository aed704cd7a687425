"""Words that give the label away: a word or pair of words that one class has and no other."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.finding import MAX_ROWS_NAMED, Finding
from trainwright.trainer.data.leaks.table import Column, LeakTable, Target

WORD = re.compile(r"\w+(?:[-:#=]\w+)*", re.UNICODE)
PRECISION = 0.97
RECALL = 0.5
"""Share of a class's texts that must have the word: ordinary words of a topic have less."""
MIN_TEXTS = 10
MAX_WORDS = 3000


def find(table: LeakTable) -> list[Finding]:
    """Return a finding for each column of texts with such a word."""
    target = table.target
    if target is None or not target.is_classes:
        return []
    return [one for column in table.of_kind("text") if (one := _finding(table, target, column)) is not None]


def _finding(table: LeakTable, target: Target, column: Column) -> Finding | None:
    words = [_words(str(cell)) for cell in column.cells]
    common = Counter(word for of_row in words for word in of_row).most_common(MAX_WORDS)
    for word, count in common:
        if count < MIN_TEXTS:
            break
        has = np.array([word in of_row for of_row in words])
        for label, name in enumerate(target.classes or []):
            if _gives_away(has, target.values == label, table):
                return _of_word(table, column, word, name, has)
    return None


def _words(text: str) -> set[str]:
    words = WORD.findall(text.casefold())
    return {*words, *(f"{first} {second}" for first, second in pairwise(words))}


def _gives_away(has: Array, of_class: Array, table: LeakTable) -> bool:
    """Return whether a word is a class's: found on the train rows, and confirmed on the held-out ones."""
    for rows in (table.train, table.held_out):
        with_word, members = int((has & rows).sum()), int((of_class & rows).sum())
        both = int((has & of_class & rows).sum())
        if not with_word or not members or both < PRECISION * with_word or both < RECALL * members:
            return False
        if members > 0.9 * rows.sum():
            return False
    return True


def _of_word(table: LeakTable, column: Column, word: str, label: str, has: Array) -> Finding:
    rows = np.flatnonzero(has)
    return Finding(
        kind="token",
        column=column.name,
        severity="warning",
        message=f"{word!r} in {column.name!r} gives the class {label!r} away: {len(rows)} texts have it, and nearly "
        "none of another class.",
        measured=float(len(rows)),
        bound=float(MIN_TEXTS),
        rows=table.places(rows[:MAX_ROWS_NAMED]),
        count=len(rows),
        remedy=f"If it was written after the fact, remove {word!r} from the texts.",
    )
