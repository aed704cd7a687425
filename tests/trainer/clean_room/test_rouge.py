"""ROUGE, with the figures of the package rouge-score 0.1.2 without stemming."""

from __future__ import annotations

import math

import pytest

from trainwright.trainer.clean_room.rouge import OF_TEXTS, rouge, words

PAIRS = {
    ("The quick brown fox jumps over the lazy dog.", "A quick brown dog jumps over the lazy fox!"): (
        8 / 9,
        1 / 2,
        2 / 3,
    ),
    ("the the the cat", "the cat sat on the mat"): (0.6, 0.25, 0.4),
    ("", "nothing is written"): (0.0, 0.0, 0.0),
}


@pytest.mark.requirement("ARCH-5")
def test_it_counts_as_rouge_score_does() -> None:
    for (written, wanted), expected in PAIRS.items():
        assert [rouge(name, [written], [wanted]) for name in OF_TEXTS] == pytest.approx(list(expected))
    both = list(zip(*PAIRS, strict=True))
    assert rouge("rouge_1", *both) == pytest.approx((8 / 9 + 0.6) / 3)
    assert math.isnan(rouge("rouge_l", [], []))
    assert words("Größe: 3,5-mal über_all") == ["größe", "3", "5", "mal", "über", "all"]
