"""Tokenizers: bytes, characters, or one of the Transformers library from a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from trainwright.trainer.base.errors import DataError

Tokens = np.ndarray[Any, np.dtype[np.int32]]
BOUNDARY = 256
"""Token before each document: the first number that is no byte."""


class Tokenizer(Protocol):
    """Text to numbers below `vocabulary_size`."""

    vocabulary_size: int
    boundary: int | None
    """Precedes each document, so that its first token is predicted too; None: it is not predicted."""
    padding: int

    def encode(self, text: str) -> Tokens:
        """Return the tokens of a text, (tokens,)."""
        ...

    def encode_whole(self, text: str, max_length: int) -> Tokens:
        """Return the tokens of a text by itself, at most `max_length`, with the marks that belong around it."""
        ...

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens, without marks."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """Return the description from which the same tokens can be made again."""
        ...


class ByteTokenizer:
    """UTF-8 bytes, 0 to 255."""

    vocabulary_size = BOUNDARY + 1
    boundary: int | None = BOUNDARY
    padding = 0

    def encode(self, text: str) -> Tokens:
        """Return the bytes."""
        return np.frombuffer(text.encode("utf-8"), dtype=np.uint8).astype(np.int32)

    def encode_whole(self, text: str, max_length: int) -> Tokens:
        """Return the bytes after the boundary."""
        return np.concatenate([np.array([BOUNDARY], dtype=np.int32), self.encode(text)])[:max_length]

    def decode(self, tokens: list[int]) -> str:
        """Return the text of bytes; what is no UTF-8 shows as a question mark in a diamond."""
        return bytes(token for token in tokens if token < BOUNDARY).decode("utf-8", errors="replace")

    def as_dict(self) -> dict[str, Any]:
        """Return its name."""
        return {"name": "bytes"}


class CharacterTokenizer:
    """One token for each character of the training text; others are spelled in UTF-8 bytes, so nothing is unknown.

    ASCII characters are their own bytes; the rest follow after the boundary.
    """

    boundary: int | None = BOUNDARY
    padding = 0

    def __init__(self, characters: str) -> None:
        self.characters = characters
        self.vocabulary_size = BOUNDARY + 1 + len(characters)
        self._number = {character: BOUNDARY + 1 + place for place, character in enumerate(characters)}

    @classmethod
    def fit(cls, texts: Iterable[str]) -> CharacterTokenizer:
        """Take the characters of the training texts."""
        found: set[str] = set()
        for text in texts:
            found.update(text)
        return cls("".join(sorted(character for character in found if ord(character) > 127)))

    def encode(self, text: str) -> Tokens:
        """Return the characters' numbers."""
        if text.isascii():
            return ByteTokenizer().encode(text)
        numbers: list[int] = []
        for character in text:
            known = self._number.get(character)
            numbers += character.encode("utf-8") if known is None else (known,)
        return np.array(numbers, dtype=np.int32)

    def encode_whole(self, text: str, max_length: int) -> Tokens:
        """Return the characters' numbers after the boundary."""
        return np.concatenate([np.array([BOUNDARY], dtype=np.int32), self.encode(text)])[:max_length]

    def decode(self, tokens: list[int]) -> str:
        """Return the text of characters and bytes."""
        known = (
            self.characters[token - BOUNDARY - 1].encode() if token > BOUNDARY else bytes([token] * (token < BOUNDARY))
            for token in tokens
            if token < self.vocabulary_size
        )
        return b"".join(known).decode("utf-8", errors="replace")

    def as_dict(self) -> dict[str, Any]:
        """Return its name and the characters beyond ASCII in the order of their numbers."""
        return {"name": "characters", "characters": self.characters}


class LibraryTokenizer:
    """A tokenizer that the Transformers library loads from a folder of the user's; its code is never run."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer, logging

        logging.set_verbosity_error()  # it warns of texts longer than the model's context
        try:
            self.inner: Any = AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False, use_fast=True
            )
        except Exception as error:
            raise DataError(
                f"The tokenizer in {folder.name} cannot be loaded: {str(error)[:200]}",
                remedy="Point at a folder that tokenizer.save_pretrained(folder) has written (tokenizer.json).",
            ) from error
        self.folder = folder
        self.vocabulary_size = len(self.inner)
        tokens = (self.inner.bos_token_id, self.inner.eos_token_id, self.inner.sep_token_id)
        self.boundary = next((token for token in tokens if token is not None), None)
        self.padding = int(self.inner.pad_token_id or 0)

    def encode(self, text: str) -> Tokens:
        """Return the tokens without any that mark beginning or end."""
        return np.array(self.inner(text, add_special_tokens=False)["input_ids"], dtype=np.int32)

    def encode_whole(self, text: str, max_length: int) -> Tokens:
        """Return the tokens with the tokenizer's special tokens."""
        return np.array(self.inner(text, truncation=True, max_length=max_length)["input_ids"], dtype=np.int32)

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens, without marks."""
        return str(self.inner.decode(tokens, skip_special_tokens=True))

    def as_dict(self) -> dict[str, Any]:
        """Return the folder's name."""
        return {"name": "library", "folder": self.folder.name, "class": type(self.inner).__name__}
