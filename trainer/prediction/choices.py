"""Questions with choices, one of which is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.data.text.joined import inputs_of, pair_encoder
from trainwright.trainer.prediction.fields import Cells, Fields
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


class ChoiceRows:
    """Questions, each alone, with as many choices as in training."""

    takes: ClassVar[str] = "questions with choices: a JSON row each; or files of such rows (.jsonl, .json, .csv)"
    stdin: ClassVar[str] = ".csv"

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:
        self.options = schema["text"]
        self.encode = prepared_by(pair_encoder, self.options, folder)

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield questions one by one: tokens and mask, (1, choices, tokens). Raises WrongInputError."""
        name, columns = self.options["question"], self.options["choices"]
        for place, row in Fields((name, *([columns] if isinstance(columns, str) else columns))).rows(given):
            question, choices = text_in(row, name), self._choices(row)
            try:
                pairs = [self.encode(question, choice)[0] for choice in choices]
            except ValueError as problem:
                raise WrongInputError(f"{question[:60]!r} is too long: {problem}.", "Ask in fewer words.") from None
            inputs = {key: value[None] for key, value in inputs_of(pairs, self.options["padding"]).items()}
            yield [Sample(place | {"question": question}, [], {"choices": choices})], inputs

    def _choices(self, row: Cells) -> list[str]:
        columns, count = self.options["choices"], self.options["count"]
        if isinstance(columns, list):
            return [text_in(row, column) for column in columns]
        cell = row[columns]
        found = cell.get("text") if isinstance(cell, Mapping) else cell
        if not isinstance(found, list) or len(found) != count:
            told = f"{len(found)} choices" if isinstance(found, list) else repr(str(found)[:60])
            raise WrongInputError(f"{columns}: {told}.", f"Give a list of {count} texts, as many as in training.")
        return [text_in({f"choice {place}": one}, f"choice {place}") for place, one in enumerate(found, start=1)]


class ChoiceAnswers:
    """The likeliest choice of each question."""

    options: ClassVar[tuple[Option, ...]] = ()

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None: ...

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return the question's `{"choice", "number", "probability", "probabilities"}`, numbers from 0; the outputs."""
        (sample,), inputs = batch
        outputs = program(inputs)
        shares = shares_of(finite(outputs, [sample])[0]).tolist()
        best = max(range(len(shares)), key=shares.__getitem__)
        choice = sample.details["choices"][best]
        return [{"choice": choice, "number": best, "probability": shares[best], "probabilities": shares}], outputs

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the choice with its number and probability."""
        return [{name: answer[name] for name in ("choice", "number", "probability")}]
