"""Answers of a model that writes on: token by token, drawn by what the program says of the next one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from predictor import finite, shipped

MAX_SECONDS = 25.0
"""Of one request: less than its callers wait."""


class Answers:
    """Writes on after each prompt, one request after the other.

    Every token runs the program over all that it sees: nothing is kept between them.

    Args:
        program: gives outputs for inputs.
        signature: of the model.
        folder: with predict.py, schema.json and a learned tokenizer.
    """

    runs_per_row = 100

    def __init__(self, program: Any, signature: dict[str, Any], folder: Path) -> None:
        schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))["text"]
        self.program, self.seen, self.ends = program, signature["inputs"]["most_tokens"], set(schema["ends"])
        self.shipped = shipped(folder)
        self.decode = self.shipped["decoder"](schema, folder)
        self.one_at_a_time = threading.Lock()

    def __call__(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        """Return for each prompt `{"text", "tokens", "ended", "seed"}`. Raises NotFiniteError.

        `text` does not repeat the prompt. It `ended` with the document (document), before the words that were asked
        for (stop), with as many tokens as were asked for (most_tokens), or when the request's time was over (time).
        """
        until = time.monotonic() + MAX_SECONDS
        with self.one_at_a_time:
            return [self._written(one, until) for one in inputs]

    def _written(self, prompt: Any, until: float) -> dict[str, Any]:
        draw, ours = np.random.default_rng(prompt.seed), self.shipped

        def following(tokens: list[int]) -> int:
            scores = finite(ours["next_scores"](self.program, tokens, self.seen))
            token: int = ours["chosen_token"](scores, prompt.temperature, draw)
            return token

        def stop(written: list[int]) -> str | None:
            if time.monotonic() > until:
                return "time"
            is_there = prompt.stop and prompt.stop in ours["text_after"](self.decode, prompt.tokens, written)
            return "stop" if is_there else None

        written, ended = ours["write_on"](following, prompt.tokens, self.ends, prompt.most_tokens, stop)
        text = ours["text_after"](self.decode, prompt.tokens, written)
        text = text.partition(prompt.stop)[0] if ended == "stop" else text.removesuffix("\ufffd")  # half a character
        return {"text": text, "tokens": len(written), "ended": ended, "seed": prompt.seed}
