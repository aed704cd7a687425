"""Texts with hidden words, and the likeliest words in their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.data.text.transform import decoder, filled_up
from trainwright.trainer.prediction.fields import Fields
from trainwright.trainer.prediction.frame import Array, Batch, Option, Program, Sample, WrongInputError, shares_of
from trainwright.trainer.prediction.texts import TextRows, text_in

MAX_WORDS = 5
"""That are answered for each hidden one, the likeliest first."""


class MaskedRows(TextRows):
    """Texts, each alone, with a mark for each hidden token."""

    takes: ClassVar[str] = "texts with a mark (schema.json: text.mark) for each hidden token; or files of such texts"

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield texts one by one: input_ids and attention_mask, (1, tokens). Raises WrongInputError."""
        column, mark, most = (self.options[key] for key in ("column", "mark", "block_size"))
        for place, row in Fields((column,), column).rows(given):
            text = text_in(row, column)
            tokens = masked_tokens(text, self.options, self.encode)
            if self.options["mask"] not in tokens[:most]:
                raise WrongInputError(f"{text[:60]!r} hides nothing within {most} tokens.", f"Write {mark} for a word.")
            cut = [f"text: cut after {most} tokens"] * (len(tokens) > most)
            yield [Sample(place | {"text": text}, cut)], filled_up([tokens[:most]], self.options["padding"])


def masked_tokens(text: str, options: Mapping[str, Any], encode: Any) -> list[int]:
    """Return the tokens of a text with marks; a learned token holds the blank before its word, and so does a mark."""
    is_learned = options["tokenizer"]["name"] not in {"bytes", "characters"}
    parts = text.split(options["mark"])
    if is_learned:
        parts = [*(part.rstrip(" ") for part in parts[:-1]), parts[-1]]
    begin = encode("")
    found = [*begin]
    for number, part in enumerate(parts):
        found += [options["mask"]] * (number > 0) + (encode(part)[len(begin) :] if part else [])
    return found


class FilledAnswers:
    """The likeliest tokens in place of each mark."""

    options: ClassVar[tuple[Option, ...]] = ()

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.text, self.decode = schema["text"], decoder(schema["text"], folder)

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return the text's `{"text", "words"}`, of each mark the likeliest with their probabilities; the outputs."""
        (sample,), inputs = batch
        outputs = program(inputs)
        places = (inputs["input_ids"][0] == self.text["mask"]).nonzero()[0]
        words = [self._likeliest(scores) for scores in outputs[0][places]]
        text = sample.place["text"]
        for one in words:
            text = text.replace(self.text["mark"], one[0]["word"].strip() or one[0]["word"], 1)
        return [{"text": text, "words": words}], outputs

    def _likeliest(self, scores: Array) -> list[dict[str, Any]]:
        shares = shares_of(scores)
        order = (-shares).argsort(kind="stable")[:MAX_WORDS].tolist()
        return [{"word": self.decode([token]), "probability": float(shares[token])} for token in order]

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the text with the likeliest words in it, and their probabilities."""
        return [{"filled": answer["text"], "probabilities": "; ".join(f"{one[0]['probability']:.4g}"
                                                                      for one in answer["words"])}]  # fmt: skip
