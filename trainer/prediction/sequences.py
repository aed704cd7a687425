"""Texts, and the text that the model writes from each: a summary, a translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainwright.trainer.data.text.transform import decoder
from trainwright.trainer.prediction.frame import Array, Batch, Inputs, Option, Program, finite
from trainwright.trainer.prediction.prompts import write_on
from trainwright.trainer.prediction.texts import TextRows


class SourceRows(TextRows):
    """Texts to read, one by one."""

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:
        super().__init__(schema, folder)
        encode, prefix = self.encode, self.options["prefix"]
        self.encode = lambda text: encode(prefix + text)


class RewrittenAnswers:
    """Writes the likeliest token after each, from the start of the decoder to its end."""

    options: ClassVar[tuple[Option, ...]] = (("tokens", int, 0, "most tokens to write; 0: as many as in training"),)

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:
        self.text, self.most = schema["text"], options["tokens"] or schema["text"]["max_target_length"]
        self.decode = decoder(schema["text"], folder)

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return the text's `{"text", "tokens", "ended"}`, and the scores of the first token, (1, vocabulary)."""
        samples, inputs = batch
        first = finite(scores_after(program, inputs, [self.text["start"]])[None], samples)
        written, ended = write_on(
            lambda tokens: int(scores_after(program, inputs, tokens).argmax()),
            [self.text["start"]], {self.text["end"]}, self.most,
        )  # fmt: skip
        kept = [token for token in written if token != self.text["padding"]]
        return [{"text": self.decode(kept), "tokens": len(written), "ended": ended}], first

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the text."""
        return [{"written": answer["text"]}]


def scores_after(program: Callable[[Mapping[str, Array]], Array], inputs: Inputs, tokens: Sequence[int]) -> Array:
    """Return the score of each next token, (vocabulary,), after those that the decoder has written."""
    seen = np.array([tokens], dtype=np.int64)
    return np.asarray(program({**inputs, "decoder_input_ids": seen})[0, -1], dtype=np.float64)
