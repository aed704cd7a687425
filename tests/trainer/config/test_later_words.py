"""Sentences that name steps for after the release, and those that only sound like it (Q159)."""

from __future__ import annotations

import pytest

from trainwright.trainer.config.later_words import asked_later

pytestmark = pytest.mark.requirement("PHASE-11")


@pytest.mark.parametrize(
    ("sentence", "words", "steps"),
    [
        ("train it, then add new_cases.csv and make a second version",
         "then add new_cases.csv and make a second version", "again"),
        ("F1 of 0.9; later retrain with the new rows", "later retrain with the new rows", "again"),
        ("Release a model. Afterwards retrain with new.csv and compare both.",
         "Afterwards retrain with new.csv and compare both", "again compared"),
        ("train v1 on a.csv, make a second version with b.csv and put the better one into production",
         "make a second version with b.csv and put the better one into production", "again promoted"),
        ("release it, then promote it", "then promote it", "promoted"),
        ("Train a model and then use the newer cases", "then use the newer cases", "again"),
        ("Trainiere ein Modell, dann mit den neuen Daten eine zweite Version", None, "again"),
        ("train it and compare the first version with the second version", None, "again compared"),
    ],
)  # fmt: skip
def test_a_sentence_names_what_comes_after_the_release(sentence: str, words: str | None, steps: str) -> None:
    found = asked_later(sentence)
    assert found is not None
    assert words in (None, found.words)
    told = {"again": found.is_again, "compared": found.is_compared, "promoted": found.is_promoted}
    assert " ".join(name for name, is_asked in told.items() if is_asked) == steps


@pytest.mark.parametrize(
    "sentence",
    [
        "train it, then export it as ONNX",
        "predict whether a user installs the new version of the app",
        "who buys and then returns an item",
        "sales of next week from the last 8 weeks",
        "Fine-tune a pretrained network, then prune it",
        "compare it with a linear model",
        "predict retention after the second release of a game",
        "a model; do not retrain it",
        "readmission within 30 days after the release from hospital, with new data of each visit",
    ],
)
def test_a_sentence_that_ends_with_the_release_names_nothing_later(sentence: str) -> None:
    assert asked_later(sentence) is None
