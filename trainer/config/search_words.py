"""Words of a sentence that ask for a hyperparameter search, and for how many trials: `a small search`, `6 trials`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainwright.trainer.config.goal_words import any_of
from trainwright.trainer.config.number_words import SPELT, number_of

_COUNT = rf"(?P<count>\d{{1,4}}|{SPELT})"
_SETTINGS = (
    r"(?:learning rates?|hyper-?\s?parameters?|settings?|config(?:uration)?s?|combinations?|variants?"
    r"|lernraten|einstellungen|konfigurationen|kombinationen|varianten)"
)
_FEW = r"(?:a few|several|some|different|various|other|a couple of|ein paar|einige|mehrere|verschiedene)"
TRIALS = re.compile(
    rf"(?<![\w.,-])(?:(?:at most|up to|about|around|no more than|höchstens|etwa|bis zu)\s+)?{_COUNT}[- ]"
    rf"(?:(?:more|different|other|verschiedene)\s)?(?:trials?|versuchen?|{_SETTINGS})\b",
    re.IGNORECASE,
)
"""A number of trials, with what bounds it."""
_ASKS = any_of(
    r"hyper-?\s?parameter\w*|(?<!fine-)(?<!fine )tun(?:e|ed|ing)|sweep|optuna|(?:grid|random|bayesian) search"
    r"|(?:(?:small|short|quick|brief|little|proper|tiny|modest|thorough|wide|kleine|kurze) )(?:search|suche)"
    r"|(?:an?|do|run|make) search(?=\s*(?:[.,;:!)]|$|of\b|over\b|with\b|and\b|for (?:a |the )?(?:better|good|best)))"
    r"|(?:several|different|best|better|good) (?:learning rates?|settings)"
    rf"|(?:try|test|versuche|probiere)(?: out| aus)? {_FEW} (?:[\w-]+ )?{_SETTINGS}"
)
_OF_DATA = any_of(r"from|in|of|across|over|between|after|aus|von", end=r"\s+(?:(?:the|all|den|allen)\s+)?$")
"""What stands before trials that are rows: `patients in 3 trials`."""
_GAP = r"[^\w.,;:!?()\n\u2013\u2014]+"
"""Between two words of one clause: what a word says of those after it ends with its clause."""
_NEGATED = re.compile(
    r"\b(?:no|not|without|never|don't|skip|kein\w*|ohne|nicht)\b(?! (?:more|fewer|less|mehr) (?:than|als))"
    rf"{_GAP}(?:(?!(?:but|then|instead|aber|dann|sondern)\b)\w+{_GAP}){{0,3}}$",
    re.IGNORECASE,
)
_OF_ANOTHER = re.compile(
    r"\b(?:beats?|outperforms?|than|against|match(?:es)?|as good as|besser als|schlägt|gegen)"
    rf"{_GAP}(?![\d.]|(?:{SPELT})\b)(?:(?!(?:by|with|and|using|mit|durch|und)\b)\w+{_GAP})*"
    rf"(?:(?:tuned|was|were|had|has|made|found|optimi[sz]ed|getunt\w*){_GAP}(?:\w+{_GAP})*)?$"
    rf"|\b(?:was|were|been|already|wurden?){_GAP}(?:\w+{_GAP}(?:by|with|using|in|mit|durch){_GAP}(?:\w+{_GAP})?)?$",
    re.IGNORECASE,
)
"""What stands before the tuning of a model that there is: `better than the one that was tuned by`."""


@dataclass(frozen=True)
class AskedSearch:
    """A search that a sentence asks for."""

    words: str
    """As the sentence has them."""
    trials: int | None = None
    """None where it names no number."""


def asked_search(text: str) -> AskedSearch | None:
    """Return the search that a sentence asks for; None where it asks for none, or wants none."""
    asks = [one for one in _ASKS.finditer(text) if _is_asked(text[: one.start()])]
    counts = [
        one
        for one in TRIALS.finditer(text)
        if _is_asked(text[: one.start()]) and (asks or not _OF_DATA.search(text[: one.start()]))
    ]
    if not asks and not counts:
        return None
    words = (counts or asks)[0][0]
    return AskedSearch(words, int(number_of(counts[0]["count"])) if counts else None)


def is_negated(before: str) -> bool:
    """Whether what stands before a word says no to it, in the same clause."""
    return _NEGATED.search(before) is not None


def _is_asked(before: str) -> bool:
    return not (is_negated(before) or _OF_ANOTHER.search(before))
