"""Metrics and bounds that a sentence names, in English or German: `ROC AUC of at least 0.85`, `mindestens 90 % F1`.

A metric that is not measured here is found too, with those that come near it: so that none is taken for another without
a word. Light: free of numpy and torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal


def any_of(alternatives: str, end: str = "") -> re.Pattern[str]:
    """Return a pattern of whole words, in any case; of what stands behind them."""
    return re.compile(rf"\b(?:{alternatives})\b{end}", re.IGNORECASE)


CLASS_METRICS = ("accuracy", "balanced_accuracy", "f1", "auc", "matthews_correlation")
NUMBER_METRICS = ("mae", "rmse", "mape", "r2")


@dataclass(frozen=True)
class Word:
    """A metric as people write it."""

    name: str
    pattern: str
    metric: str | None = None
    """Ours; None where it is not measured here."""
    near: tuple[str, ...] = ()
    """Ours that come near it, where it is another; or that it could be."""
    note: str = ""
    """What is to be said where it is taken for ours."""
    convert: Callable[[float], float] = float
    """Its target in ours."""
    falls: bool = False
    """Whether less of it is more of ours."""
    needs_number: bool = False
    """Whether the word names a metric beside a number alone: `precision`, `loss`, `correct`."""
    exact_case: bool = False


def _error_rate(value: float) -> float:
    return round(1 - (value / 100 if value > 1 else value), 12)


_AVERAGE = r"(?:macro|makro)(?:[- ]?averaged|[- ]?gemittelt\w*)?"
_F1 = r"f[-_ ]?1(?:[-_ ]?(?:score|ma(?:ss|ß)|wert))?"
_OF_CLASS = r"(?:\s+(?:of|on|for|der|für)\s+(?:the\s+)?(?:class|klasse|positive)\b)"
WORDS = (
    Word("balanced accuracy", r"bal(?:anced)?[-_ ]acc(?:uracy)?|(?:aus)?balancierte[nr]? (?:genauigkeit|accuracy)"
         r"|unweighted average recall|macro[-_ ]?recall|recall[-_ ]macro", "balanced_accuracy"),
    Word("top-k accuracy", r"top[-_ ]?(?:[2-9]|1\d|k)(?:[-_ ]?(?:accuracy|acc|genauigkeit))?\b", near=("accuracy",)),
    Word("macro F1", rf"{_AVERAGE}[-_ ]*{_F1}|{_F1}[-_ ]*\(?{_AVERAGE}\)?", "f1"),
    Word("weighted F1", rf"(?:weighted|gewichtete[rs]?)[-_ ]*{_F1}|{_F1}[-_ ]*\(?weighted\)?", near=("f1",)),
    Word("micro F1", rf"(?:micro|mikro)[-_ ]*{_F1}|{_F1}[-_ ]*\(?micro\)?", near=("accuracy", "f1")),
    Word("binary F1", rf"binary[-_ ]*{_F1}|{_F1}[-_ ]*\(?binary\)?|{_F1}{_OF_CLASS}", near=("f1",)),
    Word("entity F1", rf"(?:entity|entitäten|ner|seqeval|span-level)[-_ ]*(?:level[-_ ]*)?{_F1}|seqeval", "entity_f1"),
    Word("span F1", rf"(?:span|squad|token|qa)[-_ ]*{_F1}", "span_f1"),
    Word("F1", rf"{_F1}|f[- ](?:score|ma(?:ss|ß))", "f1", note="F1 is the mean over the classes here (macro)"),
    Word("F-beta", r"f[-_ ]?(?:beta|2|0\.5)(?:[-_ ]?score)?\b", near=("f1",)),
    Word("area under the precision-recall curve", r"(?:pr|precision[-/ ]recall)[-_ ]auc|auc[-_ ]?prc?\b|au[-_ ]?prc?\b"
         r"|average precision|area under the (?:pr|precision[-/ ]recall)[- ]curve", near=("auc",)),
    Word("ROC AUC", r"roc[-_ ]?auc|auc[-_ ]?roc|auroc|auc\b|area under (?:the )?(?:roc |receiver[\w ]*)?curve"
         r"|c-statistic|fläche unter der (?:roc-?)?kurve", "auc"),
    Word("ROC AUC", r"roc\b", "auc", needs_number=True),
    Word("Matthews correlation", r"matthews(?:[-_ ]corr\w*)?(?:[-_ ]coefficient)?|mcc\b", "matthews_correlation"),
    Word("Cohen's kappa", r"(?:cohen'?s? |quadratic weighted |weighted )?kappa|qwk\b",
         near=("matthews_correlation", "balanced_accuracy")),
    Word("mean IoU", r"m(?:ean)?[-_ ]?iou|iou\b|jaccard(?:[- ]index)?|intersection over union", "mean_iou"),
    Word("Dice", r"dice(?:[- ](?:score|coefficient|koeffizient|index))?", near=("mean_iou", "f1"), needs_number=True),
    Word("mean average precision of boxes", r"mAP(?:@\S+)?", near=(), exact_case=True),
    Word("specificity", r"specificity|spezifität|true negative rate", near=("balanced_accuracy", "auc")),
    Word("recall", r"recall|sensitivity|sensitivität|true positive rate|trefferquote|hit rate",
         near=("balanced_accuracy", "f1")),
    Word("precision", r"(?<!mixed )(?<!half )(?<!full )precision|präzision", near=("f1", "balanced_accuracy")),
    Word("accuracy", r"accuracy|acc\b|genauigkeit|richtigkeit|exactness", "accuracy"),
    Word("share of correct answers", r"(?:are |is |classified |sorted )?(?:correct(?:ly)?|accurate(?:ly)?|right|richtig"
         r"|korrekt|treffsicher|stimm(?:en|t))", "accuracy", needs_number=True,
         note="the share that is right is accuracy"),
    Word("error rate", r"(?:classification |misclassification )?error[- ]rate|misclassif\w+|fehlerrate|fehlerquote",
         "accuracy", convert=_error_rate, falls=True, needs_number=True, note="the error rate is 1 - accuracy"),
    Word("share of false alarms or misses", r"false[- ](?:positive|negative|alarm)s?(?: rate)?|(?:are |is )?missed"
         r"|fehlalarme?", near=("balanced_accuracy", "f1"), needs_number=True),
    Word("Gini", r"gini(?:[- ](?:coefficient|index|koeffizient))?", near=("auc",), needs_number=True),
    Word("Kolmogorov-Smirnov", r"kolmogorov[- ]smirnov|KS\b", near=("auc",), needs_number=True, exact_case=True),
    Word("lift", r"(?:top[- ](?:\w+ )?)?lift\b", near=("auc",), needs_number=True),
    Word("exact match", r"exact[-_ ]match", "exact_match"),
    Word("exact match", r"EM\b", "exact_match", needs_number=True, exact_case=True),
    Word("SMAPE", r"s[-_]?mape|symmetric (?:mean )?(?:absolute )?percentage error", near=("mape", "mae")),
    Word("MAPE", r"mape\b|mean absolute percentage error|mean percentage error|percentage error"
         r"|mittlere[rn]? (?:absolute[rn]? )?prozentuale[rn]? (?:abweichung|fehler)", "mape"),
    Word("MASE", r"mase\b|mean absolute scaled error", near=("mae", "mape")),
    Word("median absolute error", r"median absolute error|medae\b|median error", near=("mae",)),
    Word("MAE", r"mae\b|mean absolute error|average (?:absolute )?error|off by|daneben"
         r"|(?:to )?within(?=\s[$€£]?\s?[\d.,]+k?(?:\s\w+)?\s(?:on average|of the (?:true|actual|real)))"
         r"|mittlere[rn]? (?:absolute[rn]? )?(?:fehler|abweichung)", "mae"),
    Word("an error of no named kind", r"errors?|mistakes?|(?:are |is )?wrong(?:ly)?|to within|fehlern?|falsch\w*"
         r"|abweichung\w*", near=("accuracy", "mae", "rmse", "mape"), needs_number=True),
    Word("RMSLE", r"rmsle|root mean squared log\w* error", near=("rmse", "mape")),
    Word("RMSE", r"rmse\b|root[- ]mean[- ]squared?[- ]error|wurzel des mittleren quadratischen fehlers", "rmse"),
    Word("MSE", r"mse\b|mean[- ]squared?[- ]error|mittlere[rn]? quadratische[rn]? fehler", "rmse", convert=math.sqrt,
         note="an MSE is met where RMSE is at most its root"),
    Word("adjusted R²", r"adjusted r(?:²|\^?2\b)", near=("r2",)),
    Word("R²", r"r²|r\^2\b|r2\b|r[- _]?squared|coefficient of determination|bestimmtheitsma(?:ss|ß)", "r2"),
    Word("R²", r"(?:of|der) (?:the )?varian(?:ce|z)", "r2", needs_number=True),
    Word("explained variance", r"explained variance|erklärte varianz", near=("r2",)),
    Word("correlation", r"pearson(?:'s)?(?: r| correlation)?|spearman(?:'s)?(?: rho| correlation)?|rank correlation",
         near=("r2",)),
    Word("correlation", r"correlation(?: coefficient)?|korrelation", near=("r2",), needs_number=True),
    Word("perplexity", r"perplexity|perplexität|ppl\b", "perplexity"),
    Word("bits per byte", r"bits[-_ ]per[-_ ]byte|bpb\b", "bits_per_byte"),
    Word("bits per character", r"bits[-_ ]per[-_ ](?:char\w*|token)|bpc\b", near=("bits_per_byte", "perplexity")),
    Word("ROUGE-1", r"rouge[-_ ]?1\b", "rouge_1"),
    Word("ROUGE-2", r"rouge[-_ ]?2\b", "rouge_2"),
    Word("ROUGE-L", r"rouge[-_ ]?l\b", "rouge_l"),
    Word("ROUGE", r"rouge\b", near=("rouge_1", "rouge_2", "rouge_l")),
    Word("BLEU", r"(?:sacre)?bleu\b|chrf\b|meteor\b", near=("rouge_l",)),
    Word("word error rate", r"word error rate|character error rate|wortfehlerrate", near=()),
    Word("word error rate", r"WER\b|CER\b", near=(), exact_case=True, needs_number=True),
    Word("concordance index", r"concordance(?:[- ]index)?|c-index", near=()),
    Word("ranking metric", r"ndcg\S*|mrr\b|mean reciprocal rank|recall@\d+|precision@\d+|hits?@\d+", near=()),
    Word("Brier score", r"brier(?:[- ]score)?", near=("loss",)),
    Word("calibration error", r"expected calibration error|ece\b", near=("loss",)),
    Word("picture quality", r"psnr\b|ssim\b|fid\b|lpips\b", near=()),
    Word("return", r"(?:mean |average |episode |episodic )*(?:return|reward)\b", near=(), needs_number=True),
    Word("linear probe accuracy", r"linear[-_ ]probe(?:[-_ ]accuracy)?", "linear_probe_accuracy"),
    Word("robust accuracy", r"(?:robust|adversarial)[-_ ]accuracy|accuracy under attack", "robust_accuracy"),
    Word("loss", r"(?:validation|val|test|cross[- ]entropy|log)[-_ ]?loss|logloss|cross[- ]entropy", "loss"),
    Word("loss", r"loss\b", "loss", needs_number=True),
)  # fmt: skip
"""The more particular first: where two match at one place, the longer counts."""
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
    r"(?<![\w.,/-])(\d+)(?:\s?/\s?|\s(?:times\s)?out of\s|\svon\s|(?<=\b1)\sin\s)(\d+)(?![.,/-]?\d)", re.IGNORECASE
)
"""`9 out of 10`, `19/20`, `1 in 20`."""
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
MOST_BETWEEN = 45
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
    mentions, numbers = _mentions(text), _numbers(text)
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
    kept = [place for one in found for place in (one.span, one.number) if place is not None]
    return Spoken(tuple(found), None if found else _bare(text, numbers), _without(text, kept))


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
    has_unit = word.metric in {"mae", "rmse"} or "mae" in word.near
    gaps: list[tuple[int, bool, _Number]] = []
    for one in numbers:
        is_behind = one.span[0] >= span[1]
        gap = text[span[1] : one.span[0]] if is_behind else text[one.span[1] : span[0]]
        if not (span[1] <= one.span[0] < room[1] or (room[0] <= one.span[0] and one.span[1] <= span[0])):
            continue
        if one.unit and not (has_unit and (one.unit == "money" or _OF_AT_LEAST.fullmatch(gap))):
            continue
        if len(gap) <= MOST_BETWEEN and not _BREAK.search(_COMMA.sub("", gap) if is_behind else gap):
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
    found = list(re.finditer(_BOUND.pattern + end, text[-MOST_BETWEEN:], re.IGNORECASE))
    if not found or not (found[-1]["least"] or found[-1]["most"]):
        return None
    return "least" if bool(found[-1]["least"]) is not bool(found[-1]["negation"]) else "most"


def _doubt(text: str, wanted: Wanted, others: list[_Number]) -> str:
    """Return that another number could be the target: the other end of a range, or a share that lies near."""
    assert wanted.number is not None  # noqa: S101
    assert wanted.target is not None  # noqa: S101
    for one in others:
        first, second = sorted([wanted.number, one.span])
        is_near = wanted.word.metric in CLASS_METRICS and 0 < one.value < 1 and not one.is_percent and not one.unit
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
