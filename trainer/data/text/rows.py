"""Texts of uneven length, each with a target: batches are filled up to their longest text only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.data.tensors import InMemory
from trainwright.trainer.data.text.tokenizers import Tokenizer


@dataclass(eq=False)
class TokenRows(InMemory):
    """Sample i is a mapping as the Transformers library names it: input_ids, attention_mask, labels."""

    tokens: Tensor
    """All texts' tokens one after the other, (tokens,) of int32."""
    edges: list[int]
    """Where each text begins, and where the last ends: (texts + 1,)."""
    targets: Tensor
    """(texts,): class numbers, or numbers to predict."""
    padding: int

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: part[0] for name, part in self.gather([range(len(self))[index]]).items()}

    def gather(self, indices: Sequence[int] | Tensor) -> dict[str, Tensor]:
        """Return input_ids and attention_mask, (texts, longest of them) of int64, and labels, (texts,)."""
        rows = torch.as_tensor(indices, dtype=torch.int64).tolist()
        texts = [self.tokens[self.edges[row] : self.edges[row + 1]] for row in rows]
        input_ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=self.padding).long()
        lengths = torch.tensor([len(text) for text in texts])
        mask = (torch.arange(input_ids.shape[1]) < lengths[:, None]).long()
        return {"input_ids": input_ids, "attention_mask": mask, "labels": self.targets[rows]}


def tokenize_rows(texts: Sequence[str], targets: Tensor, tokenizer: Tokenizer, max_length: int) -> TokenRows:
    """Return the texts as tokens, each cut to `max_length`, with the marks that the tokenizer puts around a text."""
    encoded = [tokenizer.encode_whole(text, max_length) for text in texts]
    return TokenRows(
        torch.from_numpy(np.concatenate(encoded)),
        list(accumulate(map(len, encoded), initial=0)),
        targets,
        tokenizer.padding,
    )
