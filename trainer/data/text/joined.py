"""Two texts, or words, as one row of tokens, and what each token is of: it is a part of `predict.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.trainer.data.text.transform import BOUNDARY, Encode, Filled, encoder, filled_up, learned

Span = tuple[int, int]
"""First character and end."""
Words = tuple[list[int], list[int | None]]
"""Tokens of a sentence, and of each the number of its word (None: a mark around the sentence)."""


@dataclass(frozen=True)
class Pair:
    """Tokens of two texts, or of the first and a part of the second."""

    tokens: list[int]
    kinds: list[int]
    """0 for the first text's tokens, 1 for the second's."""
    places: list[Span | None]
    """Of each token of the second text its characters there, from and to; None for all others."""


def pair_by_character(encode: Encode, first: str, second: str, most: int, stride: int) -> list[Pair]:
    """Return two texts by a tokenizer of bytes or characters, in parts of `most` tokens, `stride` of them in common.

    Raises ValueError where the first leaves no room for the second.
    """
    head = [BOUNDARY, *encode(first), BOUNDARY]
    numbers: list[int] = []
    places: list[Span | None] = []
    for place, character in enumerate(second):
        encoded = encode(character)
        numbers += encoded
        places += [(place, place + 1)] * len(encoded)
    room = most - len(head)
    if room <= stride:
        raise ValueError(f"the first takes {len(head)} of them, and parts are to have {stride} in common")
    found = []
    for start in range(0, max(len(numbers) - stride, 1), room - stride):
        part = numbers[start : start + room]
        around: list[Span | None] = [None] * len(head)
        kinds = [0] * len(head) + [1] * len(part)
        found.append(Pair(head + part, kinds, around + places[start : start + room]))
    return found


def words_by_character(encode: Encode, words: Sequence[str], most: int) -> Words:
    """Return words by a tokenizer of bytes or characters, at most `most` tokens."""
    tokens: list[int] = [BOUNDARY]
    places: list[int | None] = [None]
    for number, word in enumerate(words):
        encoded = encode(word if number == 0 else f" {word}")
        tokens += encoded
        places += [number] * len(encoded)
    return tokens[:most], places[:most]


def pair_encoder(schema: dict[str, Any], folder: Path) -> Callable[[str, str], list[Pair]]:
    """Return the function from two texts to their parts. Raises ValueError for a tokenizer that is not there."""
    most, stride = schema["max_length"], schema.get("stride", 0)
    if schema["tokenizer"]["name"] in {"bytes", "characters"}:
        encode = _plain(schema, folder)
        return lambda first, second: pair_by_character(encode, first, second, most, stride)
    made = learned(folder)
    made.enable_truncation(most, stride=stride, strategy="only_second")

    def by_tokenizer(first: str, second: str) -> list[Pair]:
        try:
            encoded = made.encode(first, second)
        except Exception as problem:  # noqa: BLE001 - of Rust, without a class of its own
            raise ValueError(str(problem)) from None
        return [_part(one) for one in (encoded, *encoded.overflowing)]

    return by_tokenizer


def word_encoder(schema: dict[str, Any], folder: Path) -> Callable[[Sequence[str]], Words]:
    """Return the function from words to their tokens. Raises ValueError for a tokenizer that is not there."""
    most = schema["max_length"]
    if schema["tokenizer"]["name"] in {"bytes", "characters"}:
        encode = _plain(schema, folder)
        return lambda words: words_by_character(encode, words, most)
    made = learned(folder)
    made.enable_truncation(most)

    def by_tokenizer(words: Sequence[str]) -> Words:
        encoded = made.encode(list(words), is_pretokenized=True)
        return list(encoded.ids), list(encoded.word_ids)

    return by_tokenizer


def inputs_of(pairs: Sequence[Pair], padding: int) -> Filled:
    """Return the program's inputs by name, (pairs, tokens of the longest) each: tokens, mask, kinds."""
    kinds = filled_up([pair.kinds for pair in pairs], 0)["input_ids"]
    return filled_up([pair.tokens for pair in pairs], padding) | {"token_type_ids": kinds}


def _plain(schema: dict[str, Any], folder: Path) -> Encode:
    """Return the function from a text to its tokens alone, however many."""
    whole = encoder({"tokenizer": schema["tokenizer"]}, folder)
    return lambda text: whole(text)[1:]


def _part(encoded: Any) -> Pair:
    places = [tuple(span) if text == 1 else None for text, span in zip(encoded.sequence_ids, encoded.offsets,
                                                                       strict=True)]  # fmt: skip
    return Pair(list(encoded.ids), list(encoded.type_ids), places)
