"""Sentences that ask for several seeds, and those that name one, none, or seeds of plants (Q218)."""

from __future__ import annotations

import pytest

from trainwright.trainer.config.search_words import asked_seeds

pytestmark = pytest.mark.requirement("REPRO-5")


@pytest.mark.parametrize(
    ("sentence", "words", "number"),
    [
        ("accuracy 0.9; report mean and std over 5 seeds", "over 5 seeds", 5),
        ("three different random seeds, please", "three different random seeds", 3),
        ("repeat it 5 times", "repeat it 5 times", 5),
        ("mean and standard deviation over ten runs", "mean and standard deviation over ten runs", 10),
        ("it must hold over multiple seeds", "over multiple seeds", None),
        ("how steady is it across seeds?", "across seeds", None),
        ("mit fünf Seeds trainieren", "mit fünf Seeds", 5),
    ],
)
def test_a_sentence_asks_for_repetitions(sentence: str, words: str, number: int | None) -> None:
    assert asked_seeds(sentence) == (words, number)


@pytest.mark.parametrize(
    "sentence",
    [
        "use seed 42", "with random seed 7", "seeds: 3", "set all random seeds", "fix the seeds", "one seed is enough",
        "no several seeds", "predict the variety of 210 seeds of wheat", "classify 3 kinds of seeds",
        "2 seeds per pot", "train 5 times as long", "run 3 times a day", "the weight of pumpkin seeds",
    ],
)  # fmt: skip
def test_others_ask_for_none(sentence: str) -> None:
    assert asked_seeds(sentence) is None
