"""Naive forecasts that a sentence wants beaten, and by how much: `10 % better than the last value`, or in German."""

from __future__ import annotations

import re
from dataclasses import dataclass

WORDS = r"(?:[^\W\d_]\w*(?:['\u2019]s?)?\s+){0,5}?"
"""What may stand between two parts of a clause."""
FILLED = r"(?:[^\W\d_]+\s+){0,3}?"
BEHIND = rf"(?:['\u2019]s?)?\s+{WORDS}"
BETTER = r"(?:(?:better|lower|smaller|less|more accurate) than|beat\w*|outperform\w*|improv\w+ (?:on|upon|over)"
BETTER += r"|(?:besser|kleiner|genauer) als|schlag\w*|schläg\w*|übertr[ei]ff\w*)"
UNIT = r"(?:hour|day|week|month|quarter|year|period|step|row|stunde|tage?|woche|monat|quartal|jahr|periode|schritt)e?s?"
VALUE = r"(?:value|figure|number|one|observation|level|wert|zahl|beobachtung|stand)(?:e?[sn])?"
LAST = r"(?:last|latest|this|previous|current|today|(?:letzte|diese|vorige|heutige|vorherige)[nrms]?)"
NAIVE = (
    r"(?:(?:repeat|carry|copy|reus|keep|wiederhol|fortschreib|fortzuschreib)\w*"
    rf"|{LAST}(?:['\u2019]s)?\s+(?:known\s+)?(?:{UNIT}(?:['\u2019]s?)?\s+)?{VALUE}|{VALUE}\s+(?:von\s+|of\s+)?(?:the\s+|de[rsm]\s+)?{LAST}\s+{UNIT}"
    r"|naive?[nrms]?(?:\s+(?:forecast|prediction|model|method|baseline|prognose|vorhersage|modell|verfahren)\w*)?"
    r"|persisten[cz]\w*|yesterday|gestern|gestrige[nrms]?)"
)
PARTS = {
    "half": 0.5, "hälfte": 0.5, "halb": 0.5, "third": 1 / 3, "drittel": 1 / 3, "quarter": 0.25, "viertel": 0.25,
    "two thirds": 2 / 3, "zwei drittel": 2 / 3, "three quarters": 0.75, "drei viertel": 0.75,
}  # fmt: skip
TIMES = {"twice": 2.0, "thrice": 3.0, "doppelt": 2.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "ten": 10.0,
         "zwei": 2.0, "drei": 3.0, "vier": 4.0, "fünf": 5.0, "zehn": 10.0}  # fmt: skip
_PERCENT = r"(?P<number>\d+(?:[.,]\d+)?)\s?(?:%|(?:percent|per cent|pct|prozent)\b)"
_PART = rf"(?:(?:an?|one|ein(?:e[nrms]?)?|die)\s+)?(?P<part>{'|'.join(PARTS).replace(' ', '[- ]')})(?:e[nrms]?)?\b"
AMOUNT = rf"(?P<amount>{_PERCENT}|{_PART})"
_BY = r"(?:by|um)\s+(?:(?:at least|mindestens|about|rund)\s+)?"
_LOWER = r"(?:better|lower|smaller|less|fewer|more accurate|below|under|improvement|gain|reduction|besser\w*|kleiner\w*"
_LOWER += r"|niedriger\w*|geringer\w*|genauer\w*|weniger|unter\w*|verbesserung)"
_OF_IT = rf"(?:(?!{_LOWER}\b|(?:than|als|and|und|rows?|data|zeilen|daten)\b)[^\W\d_]\w*(?:['\u2019]s?)?\s+)"
_ERROR = r"(?:errors?|mae|rmse|mse|mape|mase|fehlers?|abweichung)"
_AS_LARGE = r"(?:as|so)\s+(?:large|big|high|wrong|gro(?:ß|ss)\w*|hoch\w*)"


def _pattern(alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)


LESS = (
    _pattern(rf"{AMOUNT}\s+{_LOWER}\s+{WORDS}{NAIVE}"),
    _pattern(rf"(?:{BETTER}|(?:reduc|cut|lower|senk|verringer)\w*)\s+{WORDS}{NAIVE}{BEHIND}{_BY}{AMOUNT}"),
    _pattern(
        rf"{NAIVE}{BEHIND}{_BY}{AMOUNT}\s+{WORDS}(?:schlagen|geschlagen|übertr[eo]ffen|unterb[io]e?ten|verbesser\w*)"
    ),
)
"""An amount by which a model is to err less."""
REST = (
    _pattern(
        rf"{AMOUNT}\s+(?:(?:of|von|vom|des|der)\s+|{_OF_IT}{{0,3}}?{_ERROR}\s+|{_AS_LARGE}\s+){_OF_IT}{{0,5}}?{NAIVE}"
    ),
    _pattern(rf"(?P<amount>(?P<part>hal)(?:v|bier)\w*)\s+{WORDS}{_ERROR}\s+{WORDS}{NAIVE}"),
)
"""An amount of the error that may be left."""
_GOOD = r"(?:as\s+(?:good|accurate|precise)\s+as|so\s+(?:gut|genau)\s+wie|(?:better|more accurate)\s+than"
_GOOD += r"|(?:besser|genauer)\s+als)"
_TIMES = rf"(?P<times>\d+(?:[.,]\d+)?|{'|'.join(TIMES)})"
AS_GOOD = _pattern(rf"(?P<amount>{_TIMES}\s?-?(?:x|times|mal|fold|fach)?)\s+{_GOOD}\s+{WORDS}{NAIVE}")
BEAT = _pattern(rf"{BETTER}\s+{FILLED}{NAIVE}|{NAIVE}\s+{FILLED}(?:schlagen|übertreffen|geschlagen|übertroffen)")
"""A model that is worth nothing unless it beats the last value: `better than just repeating this year's value`."""
_WITHIN = re.compile(r"(?:within|innerhalb von)\s+$", re.IGNORECASE)
_UNREAD = re.compile(rf"{BEHIND}{_BY}\S*\d", re.IGNORECASE)
_SEASON = re.compile(
    rf"\b(?:(?P<season>season\w*|saison\w*)|(?P<day>yesterday|gestern|vortag\w*)"
    rf"|(?:last|previous|prior|an?|one|(?:letzte|vorige|eine)[nrms]?)\s+(?P<unit>{UNIT}))(?!\w)",
    re.IGNORECASE,
)
CLAUSE = re.compile(r"[^;,.!?]{0,30}")


@dataclass(frozen=True)
class Beaten:
    """What a sentence wants a model to be better than, and by how much."""

    share: float | None
    """Of the naive forecast's error that may be left; 1: it is to be beaten; None: a number that cannot be read."""
    number: tuple[int, int] | None = None
    """Where the amount stands."""
    is_seasonal: bool = False
    """Whether it is said to repeat a season."""
    unit: str = ""
    """The time whose values it repeats, as written: `week` of repeating last week."""


def beaten_naive(text: str) -> Beaten | None:
    """Return the naive forecast that a sentence wants beaten; None where it names none."""
    for pattern in (*LESS, *REST, AS_GOOD):
        for found in pattern.finditer(text):
            if not _WITHIN.search(text[: found.start()]):
                left = _left(found, is_less=pattern in LESS)
                return _of(text, found, left if 0.0 < left < 1.0 else None, found.span("amount"))
    beat = BEAT.search(text)
    if beat is None:
        return None
    return _of(text, beat, None if _UNREAD.match(text[beat.end() :]) else 1.0, None)


def _left(found: re.Match[str], *, is_less: bool) -> float:
    """Return the share of the error that is left by an amount."""
    read = found.groupdict()
    if times := read.get("times"):
        return 1.0 / max(TIMES.get(times.lower()) or float(times.replace(",", ".")), 1e-9)
    number = read.get("number")
    part = PARTS.get((read.get("part") or "").lower().replace("-", " "), 0.5)
    amount = part if number is None else float(number.replace(",", ".")) / 100
    return round(1.0 - amount if is_less else amount, 12)


def _of(text: str, found: re.Match[str], share: float | None, number: tuple[int, int] | None) -> Beaten:
    rest = CLAUSE.match(text[found.end() :])
    season = _SEASON.search(found[0] + (rest[0] if rest else ""))
    if season is None:
        return Beaten(share, number)
    unit = "day" if season["day"] else season["unit"] or ""
    return Beaten(share, number, is_seasonal=season["season"] is not None, unit=unit.lower())
