"""Words of a sentence that ask for repetitions over seeds: `mean and std over 5 seeds`, `mehrere Seeds`."""

from __future__ import annotations

import re
from typing import NamedTuple

from trainwright.trainer.config.number_words import SPELT, number_of
from trainwright.trainer.config.search_words import is_negated

MAX_COUNT = 20
"""More `seeds` than that are rows of data: `210 seeds of wheat`."""
_SEEDS = re.compile(
    rf"(?:(?:(?P<over>over|across|über)|on|with|for|from|by|using|of|mit|auf)\s+)?(?:at least |mindestens )?"
    rf"(?:(?P<count>\d{{1,2}}|{SPELT})\s+|(?P<several>several|multiple|a few|various|many|mehrere\w*|einige\w*|"
    rf"verschiedene\w*)\s+)?(?:(?P<others>different|other|independent|andere\w*)\s+)?(?:random[ -]|zufällige )?seeds?\b"
    rf"(?! (?:of|from|per|von|aus|=|:)\b)(?! ?[=:]? ?\d)"
    rf"|(?:repeat|run|train|wiederhol\w*|trainier\w*)(?:ed|s)?\s+(?:it |them |the \w+ |everything |es )?"
    rf"(?P<times>\d{{1,2}}|{SPELT})\s+times\b(?! (?:as|more|fewer|longer|faster|per|a)\b)"
    rf"|(?:mean|average|mittel\w*)(?: \w+){{0,2}} (?:and|with|±|\+/-|und) (?:\w+ )?(?:std|sd|stdev|deviation|"
    rf"standard deviation|streuung|standardabweichung) (?:over|across|of|über) (?P<runs>\d{{1,2}}|{SPELT}) "
    rf"(?:runs|trainings|repetitions|läufe\w*)\b",
    re.IGNORECASE,
)


class AskedSeeds(NamedTuple):
    """Repetitions that a sentence asks for."""

    words: str
    """As the sentence has them."""
    number: int | None
    """None where it names no number."""


def asked_seeds(text: str) -> AskedSeeds | None:
    """Return the repetitions over seeds that a sentence asks for; None where it asks for none, or for one seed."""
    for one in _SEEDS.finditer(text):
        number = one["count"] or one["times"] or one["runs"]
        count = int(number_of(number)) if number else None
        is_plural = one[0].lower().endswith("s") and any(one[name] for name in ("several", "others", "over"))
        if (is_plural if count is None else 2 <= count <= MAX_COUNT) and not is_negated(text[: one.start()]):
            return AskedSeeds(one[0], count)
    return None
