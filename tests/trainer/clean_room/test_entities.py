"""Entities read off classes, and their F1: by hand, and as seqeval 1.2.2 counted the same tags."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from trainwright.trainer.clean_room.entities import FIRST, entity_f1, spans, tags
from trainwright.trainer.data.text.token_labels import as_iob2, is_iob2, names_of

NAMES = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
WANTED = ["B-PER I-PER O B-LOC", "O O B-LOC I-LOC", "B-PER B-PER O O", "O O O O"]
GUESSED = ["B-PER I-PER O B-PER", "O I-LOC I-LOC I-LOC", "B-PER I-PER O B-LOC", "I-PER O O O"]


def numbers(sentences: list[str]) -> Any:
    return np.array([[NAMES.index(tag) for tag in sentence.split()] for sentence in sentences])


def outputs(classes: Any) -> Any:
    return np.eye(len(NAMES))[classes]


@pytest.mark.requirement("ARCH-5")
def test_entities_count_when_whole_and_of_the_right_kind() -> None:
    """There are 5 entities; 6 are found, of which only the first is right: 2 / 11, and so says seqeval."""
    wanted = numbers(WANTED)
    assert entity_f1(tags(outputs(numbers(GUESSED)), wanted), wanted) == pytest.approx(2 / 11)
    assert entity_f1(tags(outputs(wanted), wanted), wanted) == 1.0
    assert math.isnan(entity_f1(tags(outputs(wanted[3:]), wanted[3:]), wanted[3:]))


@pytest.mark.requirement("ARCH-5")
def test_ignored_tokens_are_not_there_and_rows_of_any_length_end_their_entities() -> None:
    wanted = np.array([[-100, 3, -100, 4, -100], [-100, 4, -100, 0, -100]])
    guessed = np.array([[0, 3, 1, 4, 0], [2, 4, 2, 0, 1]])
    kept = tags(outputs(guessed), wanted)
    assert entity_f1(kept, wanted) == 1.0
    assert entity_f1(kept.reshape(-1), wanted.reshape(-1)) == 1.0
    assert (kept[:, 0] >= FIRST).all()
    found = spans(np.array([3, 4, 4, 0]), np.array([True, False, True, False]))
    assert found.tolist() == [(0, 2, 2), (2, 3, 2)]


@pytest.mark.requirement("ARCH-5")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("I-PER I-PER O I-LOC B-LOC", "B-PER I-PER O B-LOC B-LOC"),
        ("B-PER E-PER O S-LOC", "B-PER I-PER O B-LOC"),
        ("B-PER I-PER L-PER U-LOC O", "B-PER I-PER I-PER B-LOC O"),
        ("B-PER I-LOC", "B-PER B-LOC"),
    ],
)
def test_every_scheme_becomes_iob2(given: str, expected: str) -> None:
    assert as_iob2(given.split()) == expected.split()
    assert is_iob2(names_of(expected.split()))
    assert not is_iob2(["NOUN", "VERB"])
