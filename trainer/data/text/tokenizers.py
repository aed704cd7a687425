"""Tokenizers: bytes, characters, or one of the Transformers library from a folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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
        """Return the tokens after the boundary."""
        return np.concatenate([np.array([BOUNDARY], dtype=np.int32), self.encode(text)])[:max_length]

    def decode(self, tokens: list[int]) -> str:
        """Return the text of bytes; what is no UTF-8 shows as a question mark in a diamond."""
        return bytes(token for token in tokens if token < BOUNDARY).decode("utf-8", errors="replace")

    def as_dict(self) -> dict[str, Any]:
        """Return its name."""
        return {"name": "bytes"}


class CharacterTokenizer(ByteTokenizer):
    """One token for each character of the training text; others are spelled in UTF-8 bytes, so nothing is unknown.

    ASCII characters are their own bytes; the rest follow after the boundary.
    """

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
            return super().encode(text)
        numbers: list[int] = []
        for character in text:
            known = self._number.get(character)
            numbers += character.encode("utf-8") if known is None else (known,)
        return np.array(numbers, dtype=np.int32)

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


# Tokenizer trained on the train split: byte pairs, for small corpora and languages that no model's tokenizer knows.
#
# Sennrich et al. 2016, arXiv:1508.07909, over bytes as GPT-2 has them; trained by the tokenizers library. The same
# texts give the same tokens, and the record of the run holds all merges: from them it can be made again.

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Tokens 0 to 4: padding first."""
BYTES = 256


class TrainedTokenizer(LibraryTokenizer):
    """A byte-pair tokenizer of its own merges, with the marks of SPECIAL around a text by itself."""

    def __init__(self, merges: Sequence[tuple[str, str]]) -> None:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
        from transformers import PreTrainedTokenizerFast

        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        pieces = [*SPECIAL, *alphabet, *("".join(merge) for merge in merges)]
        numbers = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
        made: Any = Tokenizer(models.BPE(numbers, list(merges)))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        made.decoder = decoders.ByteLevel()
        made.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
        marks = [(token, numbers[token]) for token in ("[CLS]", "[SEP]")]
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=marks
        )
        keys = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
        self.inner = PreTrainedTokenizerFast(tokenizer_object=made, **dict(zip(keys, SPECIAL, strict=True)))
        self.merges = [tuple(merge) for merge in merges]
        self.folder = Path("bpe")
        self.vocabulary_size = len(self.inner)
        self.boundary = numbers["[SEP]"]
        self.padding = numbers["[PAD]"]

    @classmethod
    def fit(cls, texts: Iterable[str], size: int) -> TrainedTokenizer:
        """Learn merges of the training texts until there are `size` tokens, or nothing occurs twice.

        Raises:
            DataError: so few tokens leave no room for bytes and marks.
        """
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        least = BYTES + len(SPECIAL)
        if size <= least:
            raise DataError(
                f"data.args.tokenizer bpe:{size} leaves no room for merges: bytes and marks are {least} tokens.",
                remedy="Take bpe:1000 or more; or bytes, which need no merges.",
            )
        made: Any = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        trainer: Any = trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=2,
            show_progress=False,
            special_tokens=list(SPECIAL),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        )
        made.train_from_iterator(texts, trainer)
        found = json.loads(made.to_str())["model"]["merges"]
        return cls([(first, second) for first, second in found])

    def as_dict(self) -> dict[str, Any]:
        """Return its name and its merges in order."""
        return {"name": "bpe", "merges": [" ".join(merge) for merge in self.merges]}


# Tokenizer of a configuration: built in, trained on the train split, or from a folder.

TRAINED = "bpe:"
"""Before the size of a tokenizer that is trained on the train split."""


def build_tokenizer(given: str | Path, training_texts: Iterable[str]) -> Tokenizer:
    """Return the tokenizer of a configuration: `bytes`, `characters`, one to be trained, or that of a folder.

    Raises:
        DataError: the folder holds no tokenizer, or one to be trained is to be too small.
    """
    if isinstance(given, Path):
        return LibraryTokenizer(given)
    if given.startswith(TRAINED):
        return TrainedTokenizer.fit(training_texts, int(given.removeprefix(TRAINED)))
    return ByteTokenizer() if given == "bytes" else CharacterTokenizer.fit(training_texts)
