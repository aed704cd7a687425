"""Tokenizer of a configuration: built in, trained on the train split, or from a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trainwright.trainer.data.text.tokenizers import ByteTokenizer, CharacterTokenizer, LibraryTokenizer, Tokenizer
from trainwright.trainer.data.text.trained import TrainedTokenizer

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
