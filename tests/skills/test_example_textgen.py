"""The text example: chapters as the package has them, and the naive figures that the model is weighed against."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.skills.example_scripts import script

pytestmark = pytest.mark.requirement("SKILL-4")


@pytest.fixture(scope="module")
def prepare() -> Any:
    return script("textgen", "prepare")


@pytest.fixture(scope="module")
def sample() -> Any:
    return script("textgen", "sample")


@pytest.fixture
def source() -> str:
    """A module as the package has it: Genesis with 20 chapters of two verses, then a book that is left out."""
    text, starts = "\n", {}
    for book, chapters in ((1, 20), (5, 1)):
        for chapter in range(1, chapters + 1):
            for verse in (1, 2):
                starts[book * 1_000_000 + chapter * 1000 + verse] = len(text)
                text += f"Book {book} [of] chapter {chapter} verse {verse}.\n"
    return f"from b import Bible\nbible = Bible(\n    0,\n    {text!r},\n    {starts!r},\n    {{}},\n)\n"


def test_chapters_are_whole_and_other_books_are_left_out(prepare: Any, source: str) -> None:
    found = prepare.chapters(source)
    assert len(found) == 20
    assert found[1] == ("Genesis", 2, "Book 1 of chapter 2 verse 1.\nBook 1 of chapter 2 verse 2.")
    assert found[-1][2].endswith("Book 1 of chapter 20 verse 2.")


def test_the_data_are_the_same_each_time_and_every_chapter_is_in_one_split(
    prepare: Any, source: str, tmp_path: Path
) -> None:
    assert prepare.write(tmp_path / "one", source) == prepare.write(tmp_path / "two", source)
    content = (tmp_path / "one" / "chapters.jsonl").read_bytes()
    assert content == (tmp_path / "two" / "chapters.jsonl").read_bytes()
    rows = [json.loads(line) for line in content.splitlines()]
    assert Counter(row["split"] for row in rows) == {"train": 16, "validation": 2, "test": 2}
    assert len({row["chapter"] for row in rows}) == len(rows)


def test_the_unigram_needs_the_entropy_of_the_characters(sample: Any) -> None:
    found = sample.naive("ab" * 50_000, "ab" * 1000)
    assert found["unigram"] == pytest.approx(1.0, abs=0.01)
    draw = random.Random(0)
    text = "".join(draw.choices("abcdefgh", k=40_000))
    assert sample.naive(text[:20_000], text[20_000:])["unigram"] == pytest.approx(math.log2(8), abs=0.02)


def test_a_compressor_that_has_seen_the_text_needs_almost_nothing(sample: Any) -> None:
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghij", k=6)) for _ in range(400)]
    text = " ".join(draw.choices(words, k=3000))
    found = sample.naive(text, text[:6000])
    assert found["xz_after_train"] < found["xz"] / 10
    assert found["xz"] < found["unigram"]
