"""Rows of prompts: the beginning of a text, and how the model is to write on after it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from drift import Drift
from predictor import shipped
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

CHARACTERS_PER_TOKEN = 100
"""Far more than any token has: a longer prompt is not even counted."""


class Prompt(NamedTuple):
    """A row, ready to be written on."""

    tokens: list[int]
    most_tokens: int
    temperature: float
    seed: int
    stop: str | None


class Rows:
    """What one row is, and how it becomes tokens.

    Args:
        signature: of the model.
        folder: with predict.py, schema.json and a learned tokenizer.
    """

    def __init__(self, signature: dict[str, Any], folder: Path) -> None:
        self.seen, most = signature["inputs"]["most_tokens"], signature["inputs"]["most_new_tokens"]
        ours = shipped(folder)
        schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))["text"]
        self.encode, needs_words = ours["encoder"](schema, folder), schema["boundary"] is None

        def check(text: str) -> str:
            try:
                text.encode("utf-8")
            except UnicodeEncodeError:
                raise ValueError("it holds half a character, which no text has") from None
            if needs_words and not self.encode(text):
                raise ValueError("it is empty, and this model needs something to begin with")
            return text

        self.Row: type[BaseModel] = create_model(
            "Row",
            __config__=ConfigDict(extra="forbid"),
            prompt=(Annotated[str, Field(max_length=self.seen * CHARACTERS_PER_TOKEN), AfterValidator(check)], ...),
            most_tokens=(Annotated[int, Field(ge=1, le=most, strict=True)], 64),
            temperature=(Annotated[float, Field(ge=0, le=10, strict=True)], 0.8),
            seed=(Annotated[int, Field(ge=0, lt=2**53, strict=True)], 0),
            stop=(Annotated[str, Field(min_length=1, max_length=100)] | None, None),
        )

    def inputs(self, rows: Sequence[Any]) -> list[Prompt]:
        """Return the prompts as tokens."""
        return [Prompt(self.encode(row.prompt), row.most_tokens, row.temperature, row.seed, row.stop) for row in rows]

    def example(self) -> list[Prompt]:
        """Return an input on which the program must run before the service is ready."""
        return [Prompt(self.encode("some words"), 1, 0.0, 0, None)]

    def notes(self, rows: Sequence[Any], inputs: Sequence[Prompt]) -> list[list[str]]:  # noqa: ARG002 - as of tables
        """Return for each prompt whether the model sees less than all of it."""
        text = f"prompt: only its last {self.seen} tokens are seen"
        return [[text] if len(prompt.tokens) > self.seen else [] for prompt in inputs]

    def count(self, rows: Sequence[Any], inputs: Sequence[Prompt], drift: Drift) -> None:  # noqa: ARG002 - as of tables
        """Count prompts that were cut; no word is kept."""
        for prompt in inputs:
            if len(prompt.tokens) > self.seen:
                drift.note("prompt", "cut")
