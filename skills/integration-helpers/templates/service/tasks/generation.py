"""Answers of a model that writes on: token by token, drawn by what the program says of the next one."""

from __future__ import annotations

import json
import runpy
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from predictor import Predictor, finite

MOST_SECONDS = 25.0
"""Of one request: less than its callers wait."""
KEPT = 16
"""Tokens of the prompt that are decoded again with what follows: some decoders join what stands side by side."""


class Answers:
    """Writes on after each prompt, one request after the other.

    Every token runs the program over all that it sees: nothing is kept between them.

    Args:
        predictor: runs the program.
        signature: of the model.
        folder: with transform.py, schema.json and a learned tokenizer.
    """

    runs_per_row = 100

    def __init__(self, predictor: Predictor, signature: dict[str, Any], folder: Path) -> None:
        schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))["text"]
        self.predictor, self.seen, self.ends = predictor, signature["inputs"]["most_tokens"], set(schema["ends"])
        self.decode = runpy.run_path(str(folder / "transform.py"))["decoder"](schema, folder)
        self.one_at_a_time = threading.Lock()

    def __call__(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        """Return for each prompt `{"text", "tokens", "ended", "seed"}`. Raises NotFiniteError.

        `text` does not repeat the prompt. It `ended` with the document (document), before the words that were asked
        for (stop), with as many tokens as were asked for (most_tokens), or when the request's time was over (time).
        """
        until = time.monotonic() + MOST_SECONDS
        with self.one_at_a_time:
            return [self._written(one, until) for one in inputs]

    def _written(self, prompt: Any, until: float) -> dict[str, Any]:
        draw, seen, kept = np.random.default_rng(prompt.seed), prompt.tokens[-self.seen :], prompt.tokens[-KEPT:]
        written: list[int] = []
        begun, text, ended = len(self.decode(kept)), "", "most_tokens"
        while len(written) < prompt.most_tokens:
            if time.monotonic() > until:
                ended = "time"
                break
            token = chosen(self._scores(seen + written), prompt.temperature, draw)
            if token in self.ends:
                ended = "document"
                break
            written.append(token)
            if prompt.stop and prompt.stop in (text := self.decode(kept + written)[begun:]):
                ended = "stop"
                break
        text = self.decode(kept + written)[begun:]
        text = text.partition(prompt.stop)[0] if ended == "stop" else text.removesuffix("\ufffd")  # half a character
        return {"text": text, "tokens": len(written), "ended": ended, "seed": prompt.seed}

    def _scores(self, tokens: Sequence[int]) -> np.ndarray[Any, Any]:
        """Return the program's score of each next token, (vocabulary,), after the last that it sees."""
        seen = np.array([tokens[-self.seen :]], dtype=np.int64)
        places = np.arange(seen.shape[1], dtype=np.int64)[None]
        given = {"input_ids": seen, "attention_mask": np.ones_like(seen), "position_ids": places}
        scores: np.ndarray[Any, Any] = finite(self.predictor.outputs(given)[0, -1])
        return scores


def chosen(scores: np.ndarray[Any, Any], temperature: float, draw: np.random.Generator) -> int:
    """Return a token drawn by its score over the temperature; of temperature 0 the likeliest."""
    if temperature == 0:
        return int(scores.argmax())
    with np.errstate(over="ignore"):  # of a temperature near 0 all but the likeliest are infinitely far
        shares = np.exp((scores - scores.max()) / temperature)
    return int(np.searchsorted(np.cumsum(shares), draw.random() * shares.sum(), side="right").clip(max=len(scores) - 1))
