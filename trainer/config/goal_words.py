"""Metrics and bounds that a sentence names, in English or German: `ROC AUC of at least 0.85`, `mindestens 90 % F1`.

A metric that is not measured here is found too, with those that come near it: so that none is taken for another without
a word. Light: free of numpy and torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

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
    Word("balanced accuracy", r"balanced[-_ ]accuracy|bal[-_ ]acc|(?:aus)?balancierte[nr]? (?:genauigkeit|accuracy)"
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
    Word("area under the precision-recall curve", r"(?:pr|precision[-/ ]recall)[-_ ]auc|au[-_ ]?prc?\b"
         r"|average precision|area under the (?:pr|precision[-/ ]recall)[- ]curve", near=("auc",)),
    Word("ROC AUC", r"roc[-_ ]?auc|auc[-_ ]?roc|auroc|auc\b|area under (?:the )?(?:roc |receiver[\w ]*)?curve"
         r"|c-statistic|fläche unter der (?:roc-?)?kurve", "auc"),
    Word("Matthews correlation", r"matthews(?:[-_ ]corr\w*)?(?:[-_ ]coefficient)?|mcc\b", "matthews_correlation"),
    Word("Cohen's kappa", r"(?:cohen'?s? |quadratic weighted |weighted )?kappa|qwk\b",
         near=("matthews_correlation", "balanced_accuracy")),
    Word("mean IoU", r"m(?:ean)?[-_ ]?iou|iou\b|jaccard(?:[- ]index)?|intersection over union", "mean_iou"),
    Word("Dice", r"dice(?:[- ](?:score|coefficient|koeffizient|index))?", near=("mean_iou", "f1"), needs_number=True),
    Word("mean average precision of boxes", r"mAP(?:@\S+)?", near=(), exact_case=True),
    Word("specificity", r"specificity|spezifität|true negative rate", near=("balanced_accuracy", "auc")),
    Word("recall", r"recall|sensitivity|sensitivität|true positive rate|trefferquote|hit rate",
         near=("balanced_accuracy", "f1"), needs_number=True),
    Word("precision", r"(?<!mixed )precision|präzision", near=("f1", "balanced_accuracy"), needs_number=True),
    Word("accuracy", r"accuracy|acc\b|genauigkeit|richtigkeit|exactness", "accuracy"),
    Word("share of correct answers", r"(?:are |is |classified |sorted )?(?:correct(?:ly)?|right|richtig|korrekt)",
         "accuracy", needs_number=True, note="the share that is right is accuracy"),
    Word("error rate", r"(?:classification |misclassification )?error[- ]rate|misclassif\w+|fehlerrate|fehlerquote",
         "accuracy", convert=_error_rate, falls=True, needs_number=True, note="the error rate is 1 - accuracy"),
    Word("exact match", r"exact[-_ ]match", "exact_match"),
    Word("exact match", r"EM\b", "exact_match", needs_number=True, exact_case=True),
    Word("SMAPE", r"s[-_]?mape|symmetric (?:mean )?(?:absolute )?percentage error", near=("mape", "mae")),
    Word("MAPE", r"mape\b|mean absolute percentage error|mean percentage error|percentage error"
         r"|mittlere[rn]? (?:absolute[rn]? )?prozentuale[rn]? (?:abweichung|fehler)", "mape"),
    Word("MASE", r"mase\b|mean absolute scaled error", near=("mae", "mape")),
    Word("median absolute error", r"median absolute error|medae\b|median error", near=("mae",)),
    Word("MAE", r"mae\b|mean absolute error|average (?:absolute )?error|off by|daneben"
         r"|mittlere[rn]? (?:absolute[rn]? )?(?:fehler|abweichung)", "mae"),
    Word("RMSLE", r"rmsle|root mean squared log\w* error", near=("rmse", "mape")),
    Word("RMSE", r"rmse\b|root[- ]mean[- ]squared?[- ]error|wurzel des mittleren quadratischen fehlers", "rmse"),
    Word("MSE", r"mse\b|mean[- ]squared?[- ]error|mittlere[rn]? quadratische[rn]? fehler", "rmse", convert=math.sqrt,
         note="an MSE is met where RMSE is at most its root"),
    Word("adjusted R²", r"adjusted r(?:²|\^?2\b)", near=("r2",)),
    Word("R²", r"r²|r\^2\b|r2\b|r[- _]?squared|coefficient of determination|bestimmtheitsma(?:ss|ß)", "r2"),
    Word("explained variance", r"explained variance|erklärte varianz", near=("r2",)),
    Word("correlation", r"pearson(?:'s)?(?: r| correlation)?|spearman(?:'s)?(?: rho| correlation)?|rank correlation",
         near=("r2",)),
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
    r"at least|min(?:imum|imal|destens)?|above|over|more than|better than|greater than|higher than|exceed\w*"
    r"|no less than|reach\w*|über|mehr als|besser als|höher als|größer als|erreich\w*|>=?|≥"
)
_AT_MOST = (
    r"at most|max(?:imum|imal)?|below|under|less than|lower than|smaller than|no more than|not more than|up to|within"
    r"|höchstens|unter|weniger als|kleiner als|niedriger als|maximal|nicht mehr als|bis zu|<=?|≤"
)
_BOUND = re.compile(rf"(?<!\w)(?:(?P<least>{_AT_LEAST})|(?P<most>{_AT_MOST}))(?!\w)", re.IGNORECASE)
_GERMAN = re.compile(
    r"\b(?:mindestens|höchstens|über|der|und|nicht|soll\w*|eine[rnms]?|mit|vorher\w+)\b", re.IGNORECASE
)
_NUMBER = re.compile(
    r"(?<![\w.,^@-])(?P<sign>[-+])?[$€£]?\s?(?P<n>\d{1,3}(?:[,.' ]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?|[.,]\d+)"
    r"(?P<scale>\s?(?:k|m|thousand|tausend|million(?:en|s)?)\b)?\s?(?P<share>%|percent|per cent|prozent|pct\b)?",
    re.IGNORECASE,
)
_NO_TARGET = re.compile(
    r"\s*-?(?:hours?|h\b|minutes?|mins?\b|seconds?|days?|weeks?|months?|years?|gb|gib|mb|rows?|lines?|samples?|images?"
    r"|pictures?|epochs?|classes|categories|columns?|seeds?|gpus?|cards?|trials?|runs?|steps?|texts|messages|stunden?"
    r"|minuten?|tage?n?|zeilen|bilder\w*|klassen|spalten|epochen|jahre\w*|people|customers|passengers|diamonds|digits"
    r"|tickets|documents|of\s+(?:the\s+)?(?:data|rows))\b",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"\b(?:not|instead of|rather than|never|no|nicht|statt|keine?|anstelle von)\s+(?:the\s+|die\s+|der\s+)?$",
    re.IGNORECASE,
)
_SPLIT = r"(?:(?:val|valid|validation|eval|dev|test)[_/])?"
_SCALES = {"k": 1e3, "t": 1e3, "m": 1e6}
_BREAK = re.compile(r"[;!?]|[.,](?=\s)|\b(?:and|und|with|mit|but|aber)\b", re.IGNORECASE)
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
    """Where the number stands."""


@dataclass(frozen=True)
class Spoken:
    """All that a sentence says of its goal."""

    named: tuple[Wanted, ...] = ()
    bare: Wanted | None = None
    """A share that names no metric: `at least 90 %`."""
    rest: str = field(default="", compare=False)
    """The sentence without what was read: what hours, money and hardware are read from."""


@dataclass(frozen=True)
class _Number:
    value: float
    is_percent: bool
    span: tuple[int, int]


def spoken_goals(text: str) -> Spoken:
    """Return the metrics that a sentence names, those with a number first, each in the order of the sentence."""
    mentions, numbers = _mentions(text), _numbers(text)
    found: list[Wanted] = []
    taken: set[tuple[int, int]] = set()
    ends = [(0, 0), *(span for _, span in mentions), (len(text), len(text))]
    for (word, span), (before, after) in zip(mentions, _neighbours(ends), strict=True):
        number = _number_of(text, span, [one for one in numbers if one.span not in taken], before, after)
        if number is not None:
            taken.add(number.span)
        elif word.needs_number:
            continue
        found.append(_wanted(text, word, span, number))
    found.sort(key=lambda one: one.target is None)
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
            (word, match.span()) for match in re.finditer(rf"(?<![\w-]){_SPLIT}(?:{word.pattern})(?!\w)", text, flags)
        ]
    found.sort(key=lambda one: (one[1][0], -one[1][1]))
    kept: list[tuple[Word, tuple[int, int]]] = []
    for word, span in found:
        if not kept or span[0] >= kept[-1][1][1]:
            kept.append((word, span))
    return [(word, span) for word, span in kept if not _NOT.search(text[: span[0]])]


def _numbers(text: str) -> list[_Number]:
    is_german = _GERMAN.search(text) is not None
    found = []
    for match in _NUMBER.finditer(text):
        if match["share"] is None and _NO_TARGET.match(text, match.end()):
            continue
        value = _value(match["n"], is_german=is_german) * _SCALES.get((match["scale"] or "").strip().lower()[:1], 1.0)
        value = -value if match["sign"] == "-" else value
        is_percent = match["share"] is not None
        found.append(_Number(round(value / 100, 12) if is_percent else value, is_percent, match.span()))
    return found


def _value(written: str, *, is_german: bool) -> float:
    """Return a number in either writing: 1,200.5 and 1.200,5 and 0,85."""
    bare = re.sub(r"[' ]", "", written)
    if "," in bare and "." in bare:
        bare = bare.replace(*((".", "") if bare.rindex(",") > bare.rindex(".") else (",", ""))).replace(",", ".")
    elif re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+", bare) and not is_german:
        bare = bare.replace(",", "")
    elif re.fullmatch(r"[1-9]\d{0,2}(?:\.\d{3})+", bare) and (is_german or bare.count(".") > 1):
        bare = bare.replace(".", "")
    return float(bare.replace(",", "."))


def _number_of(
    text: str, span: tuple[int, int], numbers: list[_Number], before: int, after: int
) -> _Number | None:  # fmt: skip
    """Return the number that belongs to a metric: the nearest in its own part of the sentence, one behind it first."""
    behind = [one for one in numbers if span[1] <= one.span[0] < after]
    ahead = [one for one in numbers if before <= one.span[0] and one.span[1] <= span[0]]
    gaps: list[tuple[int, int, _Number]] = []
    for place, one in enumerate([*behind[:1], *ahead[-1:]]):
        gap = text[span[1] : one.span[0]] if one.span[0] >= span[1] else text[one.span[1] : span[0]]
        if len(gap) <= MOST_BETWEEN and not _BREAK.search(gap):
            is_behind = one.span[0] >= span[1]
            gaps.append((len(gap) - (len("of at least") if is_behind and _BOUND.search(gap) else 0), place, one))
    return min(gaps, key=lambda one: one[:2])[2] if gaps else None


def _wanted(text: str, word: Word, span: tuple[int, int], number: _Number | None) -> Wanted:
    words = text[slice(*span)]
    if number is None:
        return Wanted(words, word, span)
    is_behind = number.span[0] >= span[1]
    gap = text[span[1] : number.span[0]] if is_behind else text[max(number.span[0] - 16, 0) : number.span[0]]
    found = list(_BOUND.finditer(gap)) or list(_BOUND.finditer(text[max(span[0] - 16, 0) : span[0]]))
    bound: Literal["least", "most"] | None = None
    if found:
        bound = "least" if bool(found[-1]["least"]) is not word.falls else "most"
    return Wanted(words, word, span, word.convert(number.value), number.is_percent, bound, number.span)


def _bare(text: str, numbers: list[_Number]) -> Wanted | None:
    """Return a bounded share without a metric: `with at least 90 %`."""
    for one in numbers:
        bounds = list(_BOUND.finditer(text[max(one.span[0] - 16, 0) : one.span[0]]))
        if one.is_percent and bounds:
            bound: Literal["least", "most"] = "least" if bounds[-1]["least"] else "most"
            words = f"{bounds[-1][0]} {text[slice(*one.span)].strip()}"
            return Wanted(words, Word("", ""), one.span, one.value, True, bound, one.span)
    return None


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """Return a text with blanks in place of what was read, and the bounds and units at it."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + re.sub(
            r"^(\s*)(?:dollars?|usd|euros?|bucks)\b", lambda one: " " * len(one[0]), text[end:], flags=re.IGNORECASE
        )  # fmt: skip
    return text
