"""Texts, as the user has them: given as they are, or in a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.data.text.transform import encode_texts, encoder
from trainwright.trainer.prediction.frame import Batch, Sample, WrongInputError

ENDINGS = frozenset({".txt", ".csv", ".tsv", ".jsonl", ".json"})


class TextRows:
    """Texts as tokens, each alone: nothing is filled up."""

    takes: ClassVar[str] = (
        "texts as they are; or files: a text a line (.txt), or in the column of training (.csv, .jsonl)"
    )

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:
        self.options = schema["text"]
        self.most = self.options.get("max_length")
        try:
            self.encode = encoder(self.options, folder)
        except ValueError as problem:
            raise WrongInputError(f"{problem}.", "Take the folder as it was released.") from None

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield texts one by one: input_ids and attention_mask, (1, tokens). Raises WrongInputError."""
        for argument in given:
            for place, text in self._texts(argument):
                if not isinstance(text, str) or not text.strip():
                    raise WrongInputError(f"{argument[:60]}: {place or 'the text'} is empty.", "Give some words.")
                try:
                    inputs = encode_texts([text], self.encode, self.options["padding"])
                except UnicodeEncodeError:
                    raise WrongInputError(f"{text[:60]!a} holds half a character.", "Give whole characters.") from None
                is_cut = self.most is not None and inputs["input_ids"].shape[1] >= self.most
                yield [Sample(place | {"text": text}, [f"text: cut after {self.most} tokens"] * is_cut)], inputs

    def _texts(self, argument: str) -> Iterator[tuple[dict[str, Any], Any]]:
        path = Path(argument)
        if path.suffix not in ENDINGS or len(argument.split()) > 1:
            yield {}, argument
            return
        column = self.options.get("column") or "text"
        try:
            lines = path.read_text(encoding="utf-8-sig")
            for row, found in enumerate(_rows(lines, path.suffix, column), start=1):
                if column not in found:
                    raise ValueError(f"row {row} has no {column!r}; it has {', '.join(map(str, found))}")
                yield {"row": row, **{key: cell for key, cell in found.items() if key != column}}, found[column]
        except (OSError, ValueError, csv.Error, AttributeError, TypeError) as problem:
            told = getattr(problem, "strerror", None) or problem
            raise WrongInputError(f"{argument}: {told}.", f"Texts stand in the column {column!r}.") from None


def _rows(content: str, ending: str, column: str) -> list[dict[str, Any]]:
    """Return the rows of a file by column; of plain text each line that is not blank."""
    if ending == ".txt":
        return [{column: line} for line in content.splitlines() if line.strip()]
    if ending == ".json":
        found = json.loads(content)
        return list(found) if isinstance(found, list) else [found]
    if ending == ".jsonl":
        return [json.loads(line) for line in content.splitlines() if line.strip()]
    lines = content.splitlines(keepends=True)
    first = lines[0] if lines else ""
    marks = [mark for mark in ",;\t|" if column in next(csv.reader([first], delimiter=mark), [])]
    return list(csv.DictReader(lines, delimiter=max(marks or ",", key=first.count)))
