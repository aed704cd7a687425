"""Tags of words: entities in the field's schemes (IOB1, IOB2, IOBES, BILOU), all brought to IOB2; or plain classes.

Ramshaw and Marcus 1995, arXiv:cmp-lg/9505040; Ratinov and Roth 2009. Class 0 is O, kind k begins with 2k + 1 and goes
on with 2k + 2, so that entities can be read off class numbers alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

OUTSIDE = "O"
TAG = re.compile(r"([BIESULM])-(.+)")
BEGINS, GOES_ON = "BSU", "IELM"
"""First letters of tags; a single word (S, U) begins, an end (E, L) goes on."""


def are_entities(tags: Iterable[str]) -> bool:
    """Return whether tags are those of a scheme of entities: O, and letters with a kind behind them."""
    found = set(tags)
    return any(TAG.fullmatch(tag) for tag in found) and all(tag == OUTSIDE or TAG.fullmatch(tag) for tag in found)


def as_iob2(tags: Sequence[str]) -> list[str]:
    """Return a sentence's tags in IOB2: every entity begins with B, also where its scheme began it with I."""
    found: list[str] = []
    before = OUTSIDE
    for tag in tags:
        letter, _, kind = tag.partition("-") if tag != OUTSIDE else (OUTSIDE, "", "")
        goes_on = letter in GOES_ON and before[2:] == kind and before != OUTSIDE
        before = OUTSIDE if letter == OUTSIDE else f"{'I' if goes_on else 'B'}-{kind}"
        found.append(before)
    return found


def names_of(tags: Iterable[str]) -> list[str]:
    """Return the classes of some IOB2 tags by number: O, then B and I of each kind by its name."""
    kinds = sorted({tag[2:] for tag in tags if tag != OUTSIDE})
    return [OUTSIDE, *(f"{letter}-{kind}" for kind in kinds for letter in "BI")]


def is_iob2(class_names: Sequence[str] | None) -> bool:
    """Return whether classes are those of `names_of`."""
    names = list(class_names or ())
    return len(names) > 1 and are_entities(names) and names == names_of(names)
