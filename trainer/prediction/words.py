"""Sentences in words, and the tag of each: entities, parts of speech."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.data.text.joined import word_encoder
from trainwright.trainer.data.text.transform import filled_up
from trainwright.trainer.prediction.fields import Fields
from trainwright.trainer.prediction.frame import (
    Array,
    Batch,
    Option,
    Program,
    Sample,
    WrongInputError,
    finite,
    shares_of,
)
from trainwright.trainer.prediction.texts import prepared_by, text_in

OUTSIDE = "O"


class WordRows:
    """Sentences, each alone."""

    takes: ClassVar[str] = (
        "sentences: words with blanks between them, or a JSON list of words; or files of them (.txt, .jsonl, .csv)"
    )
    stdin: ClassVar[str] = ".txt"

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:
        self.options = schema["text"]
        self.encode = prepared_by(word_encoder, self.options, folder)

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield sentences one by one: input_ids and attention_mask, (1, tokens). Raises WrongInputError."""
        column = self.options["column"]
        for place, row in Fields((column,), column, is_words).rows(given):
            words = words_of(row[column], column)
            tokens, places = self.encode(words)
            first = {word: at for at, word in reversed(list(enumerate(places))) if word is not None}
            cut = [f"{len(words) - len(first)} words are beyond {self.options['max_length']} tokens: not tagged"]
            details = {"words": words, "first": [first.get(place) for place in range(len(words))]}
            sample = Sample(place or {"text": " ".join(words)}, cut * (len(first) < len(words)), details)
            yield [sample], filled_up([tokens], self.options["padding"])


def is_words(value: Any) -> bool:
    """Return whether a value of JSON is a sentence: a text, or a list of words."""
    return isinstance(value, str) or (isinstance(value, list) and bool(value) and isinstance(value[0], str))


def words_of(cell: Any, name: str) -> list[str]:
    """Return a sentence's words. Raises WrongInputError where there are none, or one is no text."""
    if isinstance(cell, str):
        listed = text_in({name: cell}, name)
        if not listed.lstrip().startswith("["):
            return listed.split()
        try:
            cell = json.loads(listed)
        except ValueError:
            return listed.split()
    if not isinstance(cell, list) or not cell:
        raise WrongInputError(f"{name}: {str(cell)[:60]} holds no words.", "Give a list of words, or a text.")
    return [text_in({f"word {place}": word}, f"word {place}") for place, word in enumerate(cell, start=1)]


class TagAnswers:
    """The likeliest tag of each word, and the entities that tags of IOB2 make of them."""

    options: ClassVar[tuple[Option, ...]] = ()

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.classes = schema["answer"]["classes"]

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return each sentence's `{"words": [{"word", "tag", "probability"}], "entities"}`, and the outputs."""
        (sample,), inputs = batch
        outputs = program(inputs)
        shares = shares_of(finite(outputs, [sample])[0])
        words: list[dict[str, Any]] = []
        for word, at in zip(sample.details["words"], sample.details["first"], strict=True):
            best = None if at is None else int(shares[at].argmax())
            said = {"tag": None, "probability": None} if best is None else {
                "tag": self.classes[best], "probability": float(shares[at, best])}  # fmt: skip
            words.append({"word": word, **said})
        found = {"entities": entities_of(words)} if OUTSIDE in self.classes else {}
        return [{"words": words, **found}], outputs

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return a line for each word."""
        return list(answer["words"])


def entities_of(words: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the entities of words with tags of IOB2, each with its text, its kind, and its first and last word."""
    found: list[dict[str, Any]] = []
    for place, word in enumerate(words):
        letter, _, kind = (word["tag"] or OUTSIDE).partition("-")
        if not kind:
            continue
        if letter == "I" and found and found[-1]["last"] == place - 1 and found[-1]["kind"] == kind:
            found[-1]["last"], found[-1]["text"] = place, f"{found[-1]['text']} {word['word']}"
        else:
            found.append({"text": word["word"], "kind": kind, "first": place, "last": place})
    return found
