"""Tokenizer trained on the train split: byte pairs, for small corpora and languages that no model's tokenizer knows.

Sennrich et al. 2016, arXiv:1508.07909, over bytes as GPT-2 has them; trained by the tokenizers library. The same texts
give the same tokens, and the record of the run holds all merges: from them it can be made again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.text.tokenizers import LibraryTokenizer

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
