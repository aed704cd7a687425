"""Questions with their contexts, and the part of the context that answers each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainwright.trainer.data.text.joined import inputs_of, pair_encoder
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


class QuestionRows:
    """Questions, each alone; a long context becomes several rows of the program."""

    takes: ClassVar[str] = "questions with contexts: a JSON row each; or files of such rows (.jsonl, .json, .csv)"
    stdin: ClassVar[str] = ".csv"

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:
        self.options = schema["text"]
        self.encode = prepared_by(pair_encoder, self.options, folder)

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield questions one by one: tokens and mask, (parts, tokens). Raises WrongInputError."""
        names = self.options["question"], self.options["context"]
        for place, row in Fields(names).rows(given):
            question, context = (text_in(row, name) for name in names)
            try:
                parts = self.encode(question, context)
            except ValueError as problem:
                raise WrongInputError(
                    f"{question[:60]!r} has no room beside its context in {self.options['max_length']} tokens: "
                    f"{problem}.", "Ask in fewer words.",
                ) from None  # fmt: skip
            details = {"context": context, "places": [part.places for part in parts]}
            yield [Sample(place | {"question": question}, [], details)], inputs_of(parts, self.options["padding"])


class SpanAnswers:
    """The likeliest part of the context; none where every part of a long one says that it has none."""

    options: ClassVar[tuple[Option, ...]] = ()

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None: ...

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return the question's `{"answer", "probability", "from", "to"}`, and the outputs, (parts, tokens, 2)."""
        (sample,), inputs = batch
        outputs = program(inputs)
        mask = inputs["attention_mask"][..., None] == 1
        scores = np.where(mask, finite(np.where(mask, outputs, 0), [sample] * len(outputs)), -np.inf)
        found = [best_span(part, places) for part, places in zip(scores, sample.details["places"], strict=True)]
        spans = [one for one in found if one[1] > one[2]]
        if not spans:
            return [{"answer": "", "probability": min(none for _, _, none in found), "from": None, "to": None}], outputs
        (start, end), share, _ = max(spans, key=lambda one: one[1])
        answer = sample.details["context"][start:end]
        return [{"answer": answer, "probability": share, "from": start, "to": end}], outputs

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return answer and probability."""
        return [{"answer": answer["answer"], "probability": answer["probability"]}]


def best_span(scores: Array, places: Sequence[tuple[int, int] | None]) -> tuple[tuple[int, int], float, float]:
    """Return the likeliest characters of a part, (tokens, 2) of scores, their probability, and that of no answer.

    The first token stands for no answer, as in training.
    """
    shares = shares_of(scores.T)
    inside = np.array([place is not None and place[0] < place[1] for place in places])
    first, last = (np.where(inside, row[: len(places)], 0.0) for row in shares)
    before = np.maximum.accumulate(first)
    end = int((before * last).argmax())
    start = int(first[: end + 1].argmax())
    span = (places[start] or (0, 0))[0], (places[end] or (0, 0))[1]
    return span, float(first[start] * last[end]), float(shares[0, 0] * shares[1, 0])
