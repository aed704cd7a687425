"""Metrics of texts that a model writes, beside one reference each, in plain Python: error rates, BLEU, chrF, ROUGE.

BLEU: Papineni et al. 2002, as sacrebleu computes it (Post 2018: corpus, tokens of mteval-v13a, exponential smoothing).
chrF: Popović 2015 (runs of up to 6 characters, beta 2), as sacrebleu. Error rates as jiwer. All as shares, not percent.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial

from .rouge import OF_TEXTS as ROUGE
from .rouge import rouge

BLEU_ORDER, CHRF_ORDER = 4, 6
CHRF_BETA = 2.0
SYMBOL = re.compile(r"([!-&(-+/:-@\[-`{-~])")
"""ASCII punctuation that is a token wherever it stands: all but the comma, the full stop, the hyphen and '."""
POINT_AFTER_NO_DIGIT, POINT_BEFORE_NO_DIGIT = re.compile(r"([^0-9])([.,])"), re.compile(r"([.,])([^0-9])")
HYPHEN_AFTER_DIGIT = re.compile(r"([0-9])(-)")

Texts = Sequence[str]
Tokens = Sequence[Hashable]


def edits(written: Tokens, reference: Tokens) -> int:
    """Return the fewest insertions, deletions and replacements between two sequences (Levenshtein 1966)."""
    row = list(range(len(reference) + 1))
    for count, token in enumerate(written, start=1):
        before, row[0] = row[0], count
        for index, other in enumerate(reference, start=1):
            before, row[index] = row[index], min(before + (token != other), row[index] + 1, row[index - 1] + 1)
    return row[-1]


def error_rate(split: Callable[[str], Tokens], written: Texts, references: Texts) -> float:
    """Return all edits by the tokens of all references; above 1 where much too much is written. NaN of no token."""
    pairs = [(split(one), split(other)) for one, other in zip(written, references, strict=True)]
    tokens = sum(len(other) for _, other in pairs)
    return sum(edits(one, other) for one, other in pairs) / tokens if tokens else math.nan


def bleu(written: Texts, references: Texts) -> float:
    """Return the corpus BLEU of texts, 0 to 1; NaN of none."""
    pairs = [(_tokens_13a(one), _tokens_13a(other)) for one, other in zip(written, references, strict=True)]
    lengths = [sum(len(each) for each in side) for side in zip(*pairs, strict=True)] or [0, 0]
    shared, runs = ([0] * BLEU_ORDER for _ in range(2))
    for one, other in pairs:
        for size in range(1, BLEU_ORDER + 1):
            found = _runs(one, size)
            shared[size - 1] += (found & _runs(other, size)).total()
            runs[size - 1] += found.total()
    if not pairs or not any(shared) or not all(runs):
        return 0.0 if pairs else math.nan
    halving, logarithms = 1.0, 0.0
    for right, total in zip(shared, runs, strict=True):
        halving = halving if right else halving * 2
        logarithms += math.log((right or 1 / halving) / total)
    brevity = min(0.0, 1.0 - lengths[1] / lengths[0])
    return math.exp(brevity + logarithms / BLEU_ORDER)


def chrf(written: Texts, references: Texts) -> float:
    """Return the corpus chrF of texts, 0 to 1: the F2 of runs of characters, spaces left out; NaN of none."""
    precisions, recalls = [], []
    for size in range(1, CHRF_ORDER + 1):
        shared = of_written = of_references = 0
        for one, other in zip(written, references, strict=True):
            found, known = (_runs("".join(text.split()), size) for text in (one, other))
            shared += (found & known).total()
            of_written += found.total() if known else 0
            of_references += known.total()
        if of_written and of_references:
            precisions.append(shared / of_written)
            recalls.append(shared / of_references)
    if not sum(recalls):
        return 0.0 if written else math.nan
    precision, recall = (sum(each) / len(each) for each in (precisions, recalls))
    return (1 + CHRF_BETA**2) * precision * recall / (CHRF_BETA**2 * precision + recall)


def _runs(tokens: Tokens, size: int) -> Counter[Tokens]:
    return Counter(tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1))


def _tokens_13a(text: str) -> list[str]:
    plain = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    plain = SYMBOL.sub(r" \1 ", f" {html.unescape(plain)} ")
    plain = POINT_BEFORE_NO_DIGIT.sub(r" \1 \2", POINT_AFTER_NO_DIGIT.sub(r"\1 \2 ", plain))
    return HYPHEN_AFTER_DIGIT.sub(r"\1 \2 ", plain).split()


OF_TEXTS: dict[str, Callable[[Texts, Texts], float]] = {
    **{name: partial(rouge, name) for name in ROUGE},
    "bleu": bleu,
    "chrf": chrf,
    "wer": partial(error_rate, str.split),
    "cer": partial(error_rate, str.strip),
}
"""Value of (texts that a model wrote, one reference for each)."""
