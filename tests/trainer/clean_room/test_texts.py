"""Metrics of texts, with the figures of rouge-score 0.1.2 without stemming, sacrebleu 2.6.0 and jiwer 4.0.0."""

from __future__ import annotations

import math

import pytest

from trainwright.trainer.clean_room.rouge import rouge, words
from trainwright.trainer.clean_room.texts import OF_TEXTS, edits

FOX = ("The quick brown fox jumps over the lazy dog.", "A quick brown dog jumps over the lazy fox!")
CAT = ("the the the cat", "the cat sat on the mat")
NOTHING = ("", "nothing is written")
ROUGE = {FOX: (8 / 9, 1 / 2, 2 / 3), CAT: (0.6, 0.25, 0.4), NOTHING: (0.0, 0.0, 0.0)}
OTHERS = {
    (FOX,): (0.33568919250372387, 0.7137616014955697, 0.3333333333333333, 0.19047619047619047),
    (CAT, ("It costs 1,000.50 dollars", "It cost 1,000 dollars")): (
        0.1564276704539789, 0.5131769105379957, 0.6, 0.32558139534883723,
    ),
    (NOTHING,): (0.0, 0.0, 1.0, 1.0),
}  # fmt: skip
"""BLEU, chrF, WER and CER of pairs of a written text and its reference."""


@pytest.mark.requirement("ARCH-5")
def test_rouge_counts_as_rouge_score_does() -> None:
    for (written, reference), expected in ROUGE.items():
        found = [OF_TEXTS[name]([written], [reference]) for name in ("rouge_1", "rouge_2", "rouge_l")]
        assert found == pytest.approx(list(expected))
    assert rouge("rouge_1", *zip(*ROUGE, strict=True)) == pytest.approx((8 / 9 + 0.6) / 3)
    assert words("Größe: 3,5-mal über_all") == ["größe", "3", "5", "mal", "über", "all"]


@pytest.mark.requirement("ARCH-5")
def test_other_metrics_of_texts_are_those_of_sacrebleu_and_jiwer() -> None:
    for pairs, expected in OTHERS.items():
        written, references = zip(*pairs, strict=True)
        found = [OF_TEXTS[name](written, references) for name in ("bleu", "chrf", "wer", "cer")]
        assert found == pytest.approx(list(expected), abs=1e-12)
    assert edits("kitten", "sitting") == edits("sitting", "kitten") == 3
    assert OF_TEXTS["wer"](["far too many words here"], ["one"]) == 5.0  # above 1: all five are wrong
    assert all(math.isnan(compute([], [])) for compute in OF_TEXTS.values())
