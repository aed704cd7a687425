"""Texts, as the user has them: given as they are, or in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from trainwright.trainer.data.text.transform import encode_texts, encoder
from trainwright.trainer.prediction.fields import Fields
from trainwright.trainer.prediction.frame import Batch, Sample, WrongInputError

Made = TypeVar("Made")


def prepared_by(make: Callable[[dict[str, Any], Path], Made], schema: dict[str, Any], folder: Path) -> Made:
    """Return what a tokenizer's file makes. Raises WrongInputError where it is not there."""
    try:
        return make(schema, folder)
    except ValueError as problem:
        raise WrongInputError(f"{problem}.", "Take the folder as it was released.") from None


def text_in(row: dict[str, Any], name: str) -> str:
    """Return a text of a row. Raises WrongInputError for another kind, an empty one, or one that is torn."""
    text = row[name]
    if not isinstance(text, str) or not text.strip():
        raise WrongInputError(f"{name}: {text!r} is no text.", "Give some words.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongInputError(f"{name}: {text[:60]!a} holds half a character.", "Give whole characters.") from None
    return text


class TextRows:
    """Texts as tokens, each alone: filled up only where the program takes one length."""

    takes: ClassVar[str] = (
        "texts as they are; or files: a text a line (.txt), or in the column of training (.csv, .jsonl, .json)"
    )
    stdin: ClassVar[str] = ".txt"

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:
        self.options = schema["text"]
        self.encode = prepared_by(encoder, self.options, folder)

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield texts one by one: input_ids and attention_mask, (1, tokens). Raises WrongInputError."""
        most, column = self.options.get("max_length"), self.options.get("column") or "text"
        for place, row in Fields((column,), column).rows(given):
            text = text_in(row, column)
            inputs = encode_texts([text], self.encode, self.options["padding"], self.options.get("length", 0))
            inputs |= {name: np.zeros_like(inputs["input_ids"]) for name in self.options.get("zeros", ())}
            is_cut = most is not None and int(inputs["attention_mask"].sum()) >= most
            yield [Sample(place | {"text": text}, [f"text: cut after {most} tokens"] * is_cut)], inputs
