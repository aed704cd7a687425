"""Prompts, as the user has them, and what the model writes after each: token by token, by what it says of the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainwright.trainer.data.text.transform import decoder, encoder
from trainwright.trainer.prediction.frame import Array, Batch, Option, Program, Sample, WrongInputError, finite

KEPT = 16
"""Tokens of the prompt that are decoded again with what follows: some decoders join what stands side by side."""


class PromptRows:
    """Beginnings of texts, one by one."""

    takes: ClassVar[str] = "beginnings of texts"
    stdin: ClassVar[str] = ""

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:
        self.encode, self.seen = encoder(schema["text"], folder), schema["text"]["block_size"]

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield the tokens of each prompt, (1, tokens). Raises WrongInputError."""
        for text in given:
            tokens = self.encode(text)
            if not tokens:
                raise WrongInputError("A prompt is empty, and this model needs something to begin with.", "Give words.")
            notes = [f"only its last {self.seen} tokens are seen"] * (len(tokens) > self.seen)
            yield [Sample({"prompt": text}, notes)], {"input_ids": np.array([tokens], dtype=np.int64)}


class WrittenAnswers:
    """Writes on after each prompt: every token runs the program over all that it sees."""

    options: ClassVar[tuple[Option, ...]] = (
        ("tokens", int, 64, "most tokens to write"),
        ("temperature", float, 0.8, "0: always the likeliest token"),
        ("seed", int, 0, "of what is drawn"),
    )

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:
        self.text, self.given = schema["text"], options
        self.decode = decoder(schema["text"], folder)

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return each prompt's `{"text", "tokens", "ended"}`, and the scores of the first token, (1, vocabulary)."""
        samples, inputs = batch
        prompt, seen = inputs["input_ids"][0].tolist(), self.text["block_size"]
        first = finite(next_scores(program, prompt, seen)[None], samples)
        draw = np.random.default_rng(self.given["seed"])
        stop = self.text.get("stop")
        written, ended = write_on(
            lambda tokens: chosen_token(next_scores(program, tokens, seen), self.given["temperature"], draw),
            prompt, set(self.text["ends"]), self.given["tokens"],
            lambda tokens: "answer" if stop and stop in text_after(self.decode, prompt, tokens[-KEPT:]) else None,
        )  # fmt: skip
        text = text_after(self.decode, prompt, written).removesuffix("\ufffd")  # half a character
        return [{"text": text.partition(stop)[0] if stop else text, "tokens": len(written), "ended": ended}], first

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the text."""
        return [{"text": answer["text"]}]


def next_scores(program: Callable[[Mapping[str, Array]], Array], tokens: Sequence[int], seen: int) -> Array:
    """Return the program's score of each next token, (vocabulary,), after the last `seen` tokens."""
    given = np.array([tokens[-seen:]], dtype=np.int64)
    places = np.arange(given.shape[1], dtype=np.int64)[None]
    inputs = {"input_ids": given, "attention_mask": np.ones_like(given), "position_ids": places}
    return np.asarray(program(inputs)[0, -1], dtype=np.float64)


def write_on(
    following: Callable[[list[int]], int],
    prompt: Sequence[int],
    ends: set[int],
    most: int,
    stop: Callable[[list[int]], str | None] = lambda written: None,  # noqa: ARG005 - nothing stops it
) -> tuple[list[int], str]:
    """Return the tokens written after a prompt, and how they ended: document, most_tokens, or what `stop` says."""
    written: list[int] = []
    while not (why := stop(written)) and len(written) < most:
        token = following([*prompt, *written])
        if token in ends:
            return written, "document"
        written.append(token)
    return written, why or "most_tokens"


def text_after(decode: Callable[[Sequence[int]], str], prompt: Sequence[int], written: Sequence[int]) -> str:
    """Return the text of what was written after a prompt."""
    kept = list(prompt[-KEPT:])
    return decode([*kept, *written])[len(decode(kept)) :]


def chosen_token(scores: Array, temperature: float, draw: np.random.Generator) -> int:
    """Return a token drawn by its score, (vocabulary,), over the temperature; of temperature 0 the likeliest."""
    if temperature == 0:
        return int(scores.argmax())
    with np.errstate(over="ignore"):  # of a temperature near 0 all but the likeliest are infinitely far
        shares = np.exp((scores - scores.max()) / temperature)
    return int(np.searchsorted(np.cumsum(shares), draw.random() * shares.sum(), side="right").clip(max=len(scores) - 1))
