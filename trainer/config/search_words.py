"""Numbers in words, and what a sentence asks for by them: trials of a search, repetitions over seeds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from trainwright.trainer.config.goal_words import any_of

# Numbers as a sentence has them, in figures or in English or German words: `1,200`, `twenty`, `sechs`.

ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
EINER = ("ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")
TENS = ("ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ZEHNER = ("zehn", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")
COMPOSED = {
    word: 10 * place + unit
    for place in range(2, 10)
    for unit in range(1, 10)
    for word in (
        f"{TENS[place - 1]}-{ONES[unit - 1]}", f"{TENS[place - 1]} {ONES[unit - 1]}",
        f"{EINER[unit - 1]}und{ZEHNER[place - 1]}",
    )
}  # fmt: skip
WORDS = COMPOSED | {
    **{name: 10 * place for names in (TENS, ZEHNER) for place, name in enumerate(names, 1)},
    **{name: place for names in (ONES, EINER) for place, name in enumerate(names, 1)},
    "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
    "eighteen": 18, "nineteen": 19, "hundred": 100, "a": 1, "an": 1, "single": 1,
    "elf": 11, "zwölf": 12, "dreizehn": 13, "vierzehn": 14, "fünfzehn": 15, "sechzehn": 16, "siebzehn": 17,
    "achtzehn": 18, "neunzehn": 19, "dreissig": 30, "hundert": 100, "eine": 1, "einer": 1,
    "one and a half": 1.5, "anderthalb": 1.5, "eineinhalb": 1.5, "two and a half": 2.5, "zweieinhalb": 2.5,
}  # fmt: skip
WORDED = "|".join(sorted(WORDS, key=len, reverse=True))
AMOUNT = r"\d{1,3}(?:[,']\d{3})+(?!\d)|\d+(?:[.,]\d+)?"
SPELT = "|".join(sorted((word for word, value in WORDS.items() if value >= 2), key=len, reverse=True))


def number_of(text: str) -> float:
    """Return the number that AMOUNT or WORDED has found."""
    whole = re.sub(r"[,'](?=\d{3}(?!\d))", "", text)
    return float(WORDS.get(text.lower()) or whole.replace(",", "."))


# Words of a sentence that ask for a hyperparameter search, and for how many trials: `a small search`, `6 trials`.

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
    r"\b(?:beats?|outperforms?|than|against|match(?:es)?|as good as|instead of"
    r"|compar(?:e|ed|ing) (?:it )?(?:with|to)|besser als|schlägt|gegen)"
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
    asks = [one for one in _ASKS.finditer(text) if is_asked(text[: one.start()])]
    counts = [
        one
        for one in TRIALS.finditer(text)
        if is_asked(text[: one.start()]) and (asks or not _OF_DATA.search(text[: one.start()]))
    ]
    if not asks and not counts:
        return None
    words = (counts or asks)[0][0]
    return AskedSearch(words, int(number_of(counts[0]["count"])) if counts else None)


def is_negated(before: str) -> bool:
    """Whether what stands before a word says no to it, in the same clause."""
    return _NEGATED.search(before) is not None


def is_asked(before: str) -> bool:
    """Whether what stands before a word neither says no to it nor names it as another's."""
    return not (is_negated(before) or _OF_ANOTHER.search(before))


# Words of a sentence that ask for repetitions over seeds: `mean and std over 5 seeds`, `mehrere Seeds`.

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


# Words of a sentence that ask for ideas to be tried, in code or configuration: `try ideas on net.py overnight`.

_IDEAS = any_of(
    r"(?:try|probier\w*)(?: out| aus)? (?:\w+ ){0,3}(?:ideas?|ideen?)"
    r"|(?:auto[- ]?|autonomous )research(?: loop)?|research[- ]loop"
    r"|keep only (?:the )?(?:\w+ )?(?:improvements|gains)|behalte nur (?:\w+ )?verbesserungen"
)


def asked_ideas(text: str) -> str:
    """Return the words by which a sentence asks for ideas to be tried as experiments; empty where it does not."""
    return next((one[0] for one in _IDEAS.finditer(text) if not is_negated(text[: one.start()])), "")
