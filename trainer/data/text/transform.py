"""Transform of texts into a model's tokens: it is a part of `predict.py`. A learned tokenizer needs `tokenizers`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

BOUNDARY = 256
"""Token before a text of bytes or characters: the first number that is no byte."""
Encode = Callable[[str], list[int]]
Decode = Callable[[Sequence[int]], str]
Filled = dict[str, np.ndarray[Any, Any]]


def encoder(schema: dict[str, Any], folder: Path) -> Encode:
    """Return the function from a text to its tokens, at most `max_length`, with the marks that belong around it.

    For a model that writes on (`boundary` in the schema): all tokens of the text, after the boundary.
    Raises ValueError for a tokenizer that is not there.
    """
    most, tokenizer = schema.get("max_length"), schema["tokenizer"]
    if tokenizer["name"] == "bytes":
        return lambda text: [BOUNDARY, *text.encode("utf-8")][:most]
    if tokenizer["name"] == "characters":
        return _of_characters(tokenizer["characters"], most)
    made = learned(folder)
    if "boundary" in schema:
        begin = [] if schema["boundary"] is None else [int(schema["boundary"])]
        made.encode_special_tokens = True  # a mark within a prompt is words, and no mark
        return lambda text: [*begin, *made.encode(text, add_special_tokens=False).ids]
    made.enable_truncation(most)
    return lambda text: list(made.encode(text).ids)


def decoder(schema: dict[str, Any], folder: Path) -> Decode:
    """Return the function from tokens to their text, without marks. Raises as `encoder`."""
    tokenizer = schema["tokenizer"]
    if tokenizer["name"] in {"bytes", "characters"}:
        spelled = [character.encode("utf-8") for character in tokenizer.get("characters", "")]
        pieces = [*(bytes([byte]) for byte in range(BOUNDARY)), b"", *spelled]
        known = len(pieces)  # a model may have more outputs than there are tokens
        return lambda tokens: b"".join(pieces[token] for token in tokens if token < known).decode("utf-8", "replace")
    made = learned(folder)
    return lambda tokens: str(made.decode(list(tokens), skip_special_tokens=True))


def learned(folder: Path) -> Any:
    """Return the tokenizer in a folder, as it encodes a text of any length. Raises ValueError where there is none."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise ValueError(f"there is no {file.name} beside schema.json, which holds the tokenizer")
    from tokenizers import Tokenizer

    found: Any = Tokenizer.from_file(str(file))
    found.no_padding()
    found.no_truncation()
    return found


def _of_characters(characters: str, most: int | None) -> Encode:
    """Return the encoder for characters: one token for each that training met, bytes for the others."""
    numbers = {character: [BOUNDARY + 1 + place] for place, character in enumerate(characters)}

    def encode(text: str) -> list[int]:
        found = [BOUNDARY]
        for character in text:
            found += numbers.get(character) or character.encode("utf-8")
        return found[:most]

    return encode


def encode_texts(texts: Sequence[str], encode: Encode, padding: int, least: int = 0) -> Filled:
    """Return the program's inputs by name, each (texts, tokens of the longest): `input_ids` and `attention_mask`.

    Args:
        least: tokens to which shorter texts are filled up.
    """
    return filled_up([encode(text) for text in texts], padding, least)


def filled_up(tokens: Sequence[Sequence[int]], padding: int, least: int = 0) -> Filled:
    """Return rows of tokens as the program's inputs, (rows, tokens of the longest) each, as `encode_texts`."""
    longest = max([least, *map(len, tokens)])
    found = {
        "input_ids": np.full((len(tokens), longest), padding, dtype=np.int64),
        "attention_mask": np.zeros((len(tokens), longest), dtype=np.int64),
    }
    for row, one in enumerate(tokens):
        found["input_ids"][row, : len(one)] = one
        found["attention_mask"][row, : len(one)] = 1
    return found
