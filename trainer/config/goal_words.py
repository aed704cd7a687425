"""Metrics and bounds that a sentence names, in English or German: `ROC AUC of at least 0.85`, `mindestens 90 % F1`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from trainwright.trainer.config.metric_words import IN_UNITS, WORDS, Word, is_share
from trainwright.trainer.config.naive_words import Beaten, beaten_naive


def any_of(alternatives: str, end: str = "") -> re.Pattern[str]:
    """Return a pattern of whole words, in any case; of what stands behind them."""
    return re.compile(rf"\b(?:{alternatives})\b{end}", re.IGNORECASE)


_AT_LEAST = (
    r"at least|min(?:imum|imal|destens)?|above|over|more than|greater than|higher than|exceed\w*|reach\w*"
    r"|über(?:schreite\w*)?|mehr als|höher als|größer als|erreich\w*|>=?|≥"
)
_AT_MOST = (
    r"at most|max(?:imum|imal)?|below|under|(?:less|lower|smaller|fewer) than|up to|within|höchstens"
    r"|unter(?:schreite\w*)?|(?:weniger|kleiner|niedriger) als|maximal|bis zu|<=?|≤"
)
_BETTER = r"(?:better|worse) than|(?:besser|schlechter) als"
_NEGATION = r"(?:\b(?:not?|never|cannot|nicht|kein\w*)|n't)\s+(?:\w+\s+){0,2}?"
_BOUND = re.compile(
    rf"(?P<negation>{_NEGATION})?(?<!\w)(?:(?P<least>{_AT_LEAST})|(?P<most>{_AT_MOST})|{_BETTER})(?!\w)",
    re.IGNORECASE,
)
_AT_END = r"\.?\s*(?:(?:an?|the|about|around|roughly|eine[rnms]?|der|die|rund|etwa)\s+)?$"
"""What may stand between a bound and what it bounds."""
_GERMAN = any_of(r"mindestens|höchstens|über|der|und|nicht|soll\w*|eine[rnms]?|mit|vorher\w+")
_NUMBER = re.compile(
    r"(?<![\w.,^@])(?<!(?<![\d%+/])(?<!\d[km])-)(?P<sign>(?<![+/])[-+](?=\S))?(?P<money>[$€£])?\s?"
    r"(?P<n>\d{1,3}(?:[,.' ]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?(?:e[-+]?\d+)?|[.,]\d+)"
    r"(?P<scale>\s?(?:k|m|thousand|tausend|million(?:en|s)?)\b)?\s?(?P<share>%|percent|per cent|prozent|pct\b)?",
    re.IGNORECASE,
)
_FRACTION = re.compile(
    r"(?<![\w.,/-])(\d+)(?:\s?/\s?|\s(?:times\s)?out of\s|\svon\s|(?<=\b1)\sin\s|\s(?:of|in)\s(?=1000?\b))"
    r"(\d+)(?![.,/-]?\d)",
    re.IGNORECASE,
)
"""`9 out of 10`, `93 of 100`, `19/20`, `1 in 20`."""
_OF_CLASS = any_of(r"class|klasse", end=r"\s+[\"'`]?$")
"""What stands before a class's number."""
_MONEY = re.compile(r"\s*(?:€|(?:dollars?|usd|euros?|eur|bucks|pounds?)\b)", re.IGNORECASE)
_COUNTED = re.compile(
    r"\s*-?(?:hours?|h\b|minutes?|mins?\b|seconds?|days?|weeks?|months?|years?|gb|gib|mb|rows?|lines?|samples?|images?"
    r"|pictures?|epochs?|classes|categories|columns?|seeds?|gpus?|cards?|trials?|runs?|steps?|texts|messages|stunden?"
    r"|minuten?|tage?n?|zeilen|bilder\w*|klassen|spalten|epochen|jahre\w*|people|customers|passengers|diamonds|digits"
    r"|tickets|documents|of\s+(?:the\s+)?(?:data|rows))\b",
    re.IGNORECASE,
)
_NOT = any_of(
    r"not|instead of|rather than|never|no|ignor(?:e|ing)|without|(?:do not|don'?t) (?:use|care about)|nicht|statt|ohne"
    r"|keine?|anstelle von",
    end=r"\s+(?:the\s+|die\s+|der\s+)?$",
)
_NOW = any_of(
    r"current\w*|now|today|so far|already|presently|(?:old|previous|last|existing|present) model|bisher\w*|aktuell\w*"
    r"|derzeit\w*|momentan|heute"
)
"""Words of a value that is reached already."""
_AIM = any_of(r"target|goal|aim|score|ziel\w*", end=r"(?:\s+(?:of|is|von|ist))?[\s:=]+$")
_TENS = ("", "", "", "", "", "fifty", "sixty", "seventy", "eighty", "ninety")
_ONES = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SPELT = any_of(rf"({'|'.join(_TENS[5:])})(?:[- ]({'|'.join(_ONES[1:])}))?[- ](?:percent|per cent)")
_SPLIT = r"(?:(?:val|valid|validation|eval|dev|test)[_/])?"
_SCALES = {"k": 1e3, "t": 1e3, "m": 1e6}
_BREAK = re.compile(r"[;!?]|[.,](?=\s)|\b(?:and|und|with|mit|but|aber)\b", re.IGNORECASE)
_RANGE = re.compile(r"\s*(?:[-\u2013]|to|and|or|bis|auf|und|oder)\s*", re.IGNORECASE)
_OF_AT_LEAST = re.compile(
    rf"[\s:=~(]*(?:(?:of|is|be|von)\s+)?(?:(?:{_AT_LEAST}|{_AT_MOST}|{_BETTER}|about)\s*)*", re.IGNORECASE
)
_COMMA = re.compile(rf",(?=\s+(?:{_AT_LEAST}|{_AT_MOST})\s*$)", re.IGNORECASE)
NEAR = 0.3
"""Shares that lie nearer to each other could both be meant as the target."""
MAX_BETWEEN = 45
"""Characters between a metric and its number."""


@dataclass(frozen=True)
class Wanted:
    """A metric that a sentence names."""

    words: str
    """As the sentence has it."""
    word: Word
    span: tuple[int, int]
    target: float | None = None
    """In our metric, where it has one, else as written; a share where it was in percent."""
    is_percent: bool = False
    bound: Literal["least", "most"] | None = None
    number: tuple[int, int] | None = None
    """Where the number stands, with its unit."""
    doubt: str = ""
    """Why another number could be meant, or this one be none to reach: `from 0.78 to 0.85`."""


@dataclass(frozen=True)
class Spoken:
    """All that a sentence says of its goal."""

    named: tuple[Wanted, ...] = ()
    bare: Wanted | None = None
    """A bounded share that names no metric: `at least 90 %`."""
    rest: str = field(default="", compare=False)
    """The sentence without what was read: what hours, money and hardware are read from."""


@dataclass(frozen=True)
class _Number:
    value: float
    is_percent: bool
    span: tuple[int, int]
    unit: str
    """`money`, `counted` (years, rows), or nothing."""


def spoken_goals(text: str) -> Spoken:
    """Return the metrics that a sentence names, those with a number first, each in the order of the sentence."""
    relative = [place for place in [(beaten_naive(text) or Beaten(None)).number] if place is not None]
    mentions, numbers = _mentions(text), _numbers(_without(text, relative))
    found: list[Wanted] = []
    taken: set[tuple[int, int]] = set()
    ends = [(0, 0), *(span for _, span in mentions), (len(text), len(text))]
    for (word, span), room in zip(mentions, _neighbours(ends), strict=True):
        possible = _possible(text, (word, span), [one for one in numbers if one.span not in taken], room)
        if possible:
            taken.add(possible[0].span)
        elif word.needs_number:
            continue
        found.append(_wanted(text, word, span, possible))
    found.sort(key=lambda one: one.target is None)
    if found and found[0].number is not None and not found[0].doubt:
        found[0] = replace(found[0], doubt=_doubt(text, found[0], [one for one in numbers if one.span not in taken]))
    bare = None if found else _bare(text, numbers)
    read = [*found, *([bare] if bare is not None else [])]
    kept = [*relative, *(place for one in read for place in (one.span, one.number) if place is not None)]
    return Spoken(tuple(found), bare, _without(text, kept))


def _neighbours(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield for each inner span the end of the one before it, and the start of the one behind it."""
    for (first, second), (_, third) in pairwise(pairwise(spans)):
        yield first[1], third[0] if second else len(spans)


def _mentions(text: str) -> list[tuple[Word, tuple[int, int]]]:
    """Return each metric's word and place: the longest at a place, none that is ruled out (`not accuracy`)."""
    found: list[tuple[Word, tuple[int, int]]] = []
    for word in WORDS:
        flags = 0 if word.exact_case else re.IGNORECASE
        found += [
            (word, match.span())
            for match in re.finditer(rf"(?<![\w-]){_SPLIT}(?:{_spaced(word.pattern)})(?:_score)?(?!\w)", text, flags)
        ]
    found.sort(key=lambda one: (one[1][0], -one[1][1]))
    kept: list[tuple[Word, tuple[int, int]]] = []
    for word, span in found:
        if not kept or span[0] >= kept[-1][1][1]:
            kept.append((word, span))
    return [(word, span) for word, span in kept if not _NOT.search(text[: span[0]])]


def _spaced(pattern: str) -> str:
    """Return a pattern whose spaces are underscores and hyphens too: mean_absolute_error."""
    return re.sub(r"(\[[^]]*\])| ", lambda one: one[1] or "[-_ ]", pattern)


def _numbers(text: str) -> list[_Number]:
    is_german = _GERMAN.search(text) is not None
    shares = list(_FRACTION.finditer(text))  # an 80/20 split is none, and no two numbers either
    found = [_Number(int(one[1]) / int(one[2]), True, one.span(), "") for one in shares if int(one[1]) < int(one[2])]
    text = _without(text, [one.span() for one in shares])
    for one in _SPELT.finditer(text):
        spelt = 10 * _TENS.index(one[1].lower()) + _ONES.index((one[2] or "").lower())
        found.append(_Number(spelt / 100, True, one.span(), ""))
    for match in _NUMBER.finditer(text):
        if _OF_CLASS.search(text[: match.start("n")]):
            continue
        is_percent, end = match["share"] is not None, match.end()
        counted, money = (None if is_percent else one.match(text, end) for one in (_COUNTED, _MONEY))
        unit = "counted" if counted else "money" if money or match["money"] else ""
        end = max([end, *(one.end() for one in (counted, money) if one)])
        value = _value(match["n"], is_german=is_german, is_money=unit == "money") * _SCALES.get(
            (match["scale"] or "").strip().lower()[:1], 1.0
        )
        value = -value if match["sign"] == "-" else value
        found.append(_Number(round(value / 100, 12) if is_percent else value, is_percent, (match.start(), end), unit))
    return sorted(found, key=lambda one: one.span)


def _value(written: str, *, is_german: bool, is_money: bool) -> float:
    """Return a number in either writing: 1,200.5 and 1.200,5 and 0,85; nobody writes thousandths of a dollar."""
    bare = re.sub(r"[' ]", "", written)
    if "," in bare and "." in bare:
        bare = bare.replace(*((".", "") if bare.rindex(",") > bare.rindex(".") else (",", ""))).replace(",", ".")
    elif re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+", bare) and not is_german:
        bare = bare.replace(",", "")
    elif re.fullmatch(r"[1-9]\d{0,2}(?:\.\d{3})+", bare) and (is_german or is_money or bare.count(".") > 1):
        bare = bare.replace(".", "")
    return float(bare.replace(",", "."))


def _possible(
    text: str, mention: tuple[Word, tuple[int, int]], numbers: list[_Number], room: tuple[int, int]
) -> list[_Number]:  # fmt: skip
    """Return the numbers that could belong to a metric, the likeliest first: of its own part of the sentence."""
    word, span = mention
    has_unit = word.metric in IN_UNITS or "mae" in word.near
    gaps: list[tuple[int, bool, _Number]] = []
    for one in numbers:
        is_behind = one.span[0] >= span[1]
        gap = text[span[1] : one.span[0]] if is_behind else text[one.span[1] : span[0]]
        if not (span[1] <= one.span[0] < room[1] or (room[0] <= one.span[0] and one.span[1] <= span[0])):
            continue
        if one.unit and not (has_unit and (one.unit == "money" or _OF_AT_LEAST.fullmatch(gap))):
            continue
        if len(gap) <= MAX_BETWEEN and not _BREAK.search(_COMMA.sub("", gap) if is_behind else gap):
            is_bound = is_behind and _BOUND.search(gap) is not None
            gaps.append((len(gap) - is_bound * len("of at least"), not is_behind, one))
    return [one for _, _, one in sorted(gaps, key=lambda one: one[:2])]


def _wanted(text: str, word: Word, span: tuple[int, int], possible: list[_Number]) -> Wanted:
    words = text[slice(*span)]
    if not possible:
        return Wanted(words, word, span)
    number, *others = possible
    is_behind = number.span[0] >= span[1]
    gap = text[span[1] : number.span[0]] if is_behind else text[number.span[1] : span[0]]
    bound = _bound_in(gap) if is_behind else None
    bound = bound or _bound_in(text[: min(span[0], number.span[0])], _AT_END)
    if bound is not None and word.falls:
        bound = "most" if bound == "least" else "least"
    doubt = ""
    if others and gap.strip() and not _OF_AT_LEAST.fullmatch(gap):
        doubt = f"the sentence has {text[slice(*others[0].span)].strip()} beside"
    elif re.search(r"\b(?:by|um)\s+$", gap):
        doubt = "the sentence could mean a change by"
    elif _NOW.search(_BREAK.split(text[: max(span[1], number.span[1])])[-1] + _BREAK.split(text[span[1] :])[0]):
        doubt = "the sentence could mean what is reached now:"
    return Wanted(words, word, span, word.convert(number.value), number.is_percent, bound, number.span, doubt)


def _bound_in(text: str, end: str = "") -> Literal["least", "most"] | None:
    """Return the last bound of a text, turned round by a negation: `must not exceed`. Better and worse are none."""
    found = list(re.finditer(_BOUND.pattern + end, text[-MAX_BETWEEN:], re.IGNORECASE))
    if not found or not (found[-1]["least"] or found[-1]["most"]):
        return None
    return "least" if bool(found[-1]["least"]) is not bool(found[-1]["negation"]) else "most"


def _doubt(text: str, wanted: Wanted, others: list[_Number]) -> str:
    """Return that another number could be the target: the other end of a range, or a share that lies near."""
    assert wanted.number is not None  # noqa: S101
    assert wanted.target is not None  # noqa: S101
    for one in others:
        first, second = sorted([wanted.number, one.span])
        is_near = is_share(wanted.word.metric) and 0 < one.value < 1 and not one.is_percent and not one.unit
        if _RANGE.fullmatch(text[first[1] : second[0]]) or (is_near and abs(one.value - wanted.target) < NEAR):
            return f"the sentence has {text[slice(*one.span)].strip()} beside"
    return ""


def _bare(text: str, numbers: list[_Number]) -> Wanted | None:
    """Return a bounded share without a metric: `with at least 90 %`, `below 0.1`."""
    for one in numbers:
        bound, words = _bound_in(text[: one.span[0]], _AT_END), text[slice(*one.span)].strip()
        is_share = one.is_percent or (0 < one.value < 1 and not one.unit)
        of_all = re.match(r"\s*of (?:the |all )?(?:time|cases)\b", text[one.span[1] :])
        if is_share and (bound or of_all or _AIM.search(text[: one.span[0]])):
            return Wanted(words, Word("", ""), one.span, one.value, one.is_percent, bound, one.span)
    return None


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """Return a text with blanks in place of what was read."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text
