"""Rows of texts, turned into tokens by predict.py and the tokenizer that training shipped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from drift import Drift
from predictor import shipped
from pydantic import AfterValidator, BaseModel, ConfigDict, create_model

Inputs = dict[str, np.ndarray[Any, Any]]


class Rows:
    """What one row is, and how it becomes the program's input.

    Args:
        signature: of the model.
        folder: with predict.py, schema.json and a learned tokenizer.
    """

    def __init__(self, signature: dict[str, Any], folder: Path) -> None:
        self.most = signature["inputs"]["most_tokens"]
        self.shipped = shipped(folder)
        schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))["text"]
        self.encode, self.padding = self.shipped["encoder"](schema, folder), schema["padding"]

        def check(text: str) -> str:
            if not text.strip():
                raise ValueError("it is empty")
            try:
                text.encode("utf-8")
            except UnicodeEncodeError:
                raise ValueError("it holds half a character, which no text has") from None
            return text

        text = Annotated[str, AfterValidator(check)]
        self.Row: type[BaseModel] = create_model("Row", __config__=ConfigDict(extra="forbid"), text=(text, ...))

    def inputs(self, rows: Sequence[Any]) -> Inputs:
        """Return the program's inputs by name, each (rows, tokens of the longest)."""
        found: Inputs = self.shipped["encode_texts"]([row.text for row in rows], self.encode, self.padding)
        return found

    def example(self) -> Inputs:
        """Return an input on which the program must run before the service is ready."""
        found: Inputs = self.shipped["encode_texts"](["some words"], self.encode, self.padding)
        return found

    def notes(self, rows: Sequence[Any], inputs: Inputs) -> list[list[str]]:  # noqa: ARG002 - as of tables
        """Return for each text whether it was cut."""
        return [[f"text: cut after {self.most} tokens"] if is_cut else [] for is_cut in self._are_cut(inputs)]

    def count(self, rows: Sequence[Any], inputs: Inputs, drift: Drift) -> None:  # noqa: ARG002 - as of tables
        """Count texts that were cut; no word is kept."""
        for is_cut in self._are_cut(inputs):
            if is_cut:
                drift.note("text", "cut")

    def _are_cut(self, inputs: Inputs) -> list[bool]:
        """Return for each text whether its tokens, as they were counted for the program, reach the limit."""
        found: list[bool] = (inputs["attention_mask"].sum(axis=1) >= self.most).tolist()
        return found
