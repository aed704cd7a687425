"""Blocks of tokens for predicting each next one, and padded rows of texts with targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.tensors import IGNORED, InMemory
from trainwright.trainer.data.text.tokenizers import Tokenizer
from trainwright.trainer.data.text.tokens import tokenized
from trainwright.trainer.data.text.turns import Pieces


@dataclass(eq=False)
class TokenBlocks(InMemory):
    """Sample i is (inputs, targets), both (block_size,) of int64; targets are the inputs one token on.

    Every token of a document is a target exactly once. A document's last block is filled up: inputs with `padding`,
    targets with IGNORED, which no loss counts.
    """

    tokens: Tensor
    """All documents' tokens one after the other, (tokens,) of int32."""
    starts: Tensor
    """First input of each block in `tokens`, (blocks,)."""
    lengths: Tensor
    """Targets of each block, (blocks,), 1 to block_size."""
    block_size: int
    padding: int
    bytes_per_token: float
    """Mean UTF-8 bytes per target."""
    counted: Tensor | None = None
    """Which tokens are targets, (tokens,) of bool; None: all."""

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self.gather([range(len(self))[index]])
        return inputs[0], targets[0]

    def gather(self, indices: Sequence[int] | Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets, both (samples, block_size) of int64."""
        rows = torch.as_tensor(indices, dtype=torch.int64)
        within = torch.arange(self.block_size + 1)
        beyond = within[:-1] >= self.lengths[rows, None]
        places = (self.starts[rows, None] + within).clamp_(max=len(self.tokens) - 1)
        tokens = self.tokens.take(places).long()
        left_out = beyond if self.counted is None else beyond | ~self.counted.take(places[:, 1:])
        return tokens[:, :-1].masked_fill(beyond, self.padding), tokens[:, 1:].masked_fill(left_out, IGNORED)

    def each(self, indices: Sequence[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield samples, (block_size,) each, gathered many at a time: one by one takes ten times as long."""
        for start in range(0, len(indices), 1024):
            yield from zip(*self.gather(indices[start : start + 1024]), strict=True)

    def keep(self, chosen: Sequence[int]) -> TokenBlocks:
        """Return the chosen blocks."""
        rows = torch.tensor(chosen, dtype=torch.int64)
        return replace(self, starts=self.starts[rows], lengths=self.lengths[rows])

    def contents(self) -> list[bytes]:
        """Return an identity of each block's text, block by block."""
        tokens = self.tokens.numpy()
        edges = zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        return [tokens[start : start + length + 1].tobytes() for start, length in edges]

    def with_targets(self) -> list[int]:
        """Return the blocks that have a target."""
        return [n for n, counts in enumerate(self.targets()) if counts]

    def targets(self) -> list[int]:
        """Return how many targets each block has."""
        if self.counted is None:
            return [int(length) for length in self.lengths]
        before = np.concatenate([[0], np.cumsum(self.counted.numpy(), dtype=np.int64)])
        first = self.starts.numpy() + 1
        return [int(count) for count in before[first + self.lengths.numpy()] - before[first]]


def cut_into_blocks(documents: Sequence[str | Pieces], tokenizer: Tokenizer, block_size: int) -> TokenBlocks:
    """Return the blocks of some documents, none of which reaches over a document's end.

    Blocks without a target are left out.
    """
    found = tokenized(documents, tokenizer)
    starts, lengths = cut(found.edges[:-1], np.maximum(np.diff(found.edges) - 1, 0), block_size)
    blocks = TokenBlocks(
        found.tokens, starts, lengths, block_size, tokenizer.padding, found.bytes_per_token, found.counted
    )
    return blocks if found.counted is None else blocks.keep(blocks.with_targets())


def cut(starts: Array, sizes: Array, block_size: int) -> tuple[Tensor, Tensor]:
    """Return first place and length of each block, both (blocks,), of documents by theirs, (documents,)."""
    counts = -(-sizes // block_size)
    document = np.repeat(np.arange(len(sizes)), counts)
    offsets = (np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)) * block_size
    lengths = np.minimum(block_size, sizes[document] - offsets)
    return torch.from_numpy(starts[document] + offsets), torch.from_numpy(lengths)


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
    places: Tensor | None = None
    """Row of each text in the table, (texts,)."""

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: part[0] for name, part in self.gather([range(len(self))[index]]).items()}

    @property
    def lengths(self) -> Tensor:
        """Tokens of each text, (texts,)."""
        edges = torch.tensor(self.edges)
        return edges[1:] - edges[:-1]

    def gather(self, indices: Sequence[int] | Tensor) -> dict[str, Tensor]:
        """Return input_ids and attention_mask, (texts, longest of them) of int64, and labels, (texts,)."""
        rows = torch.as_tensor(indices, dtype=torch.int64).tolist()
        texts = [self.tokens[self.edges[row] : self.edges[row + 1]] for row in rows]
        input_ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=self.padding).long()
        lengths = torch.tensor([len(text) for text in texts])
        mask = (torch.arange(input_ids.shape[1]) < lengths[:, None]).long()
        return {"input_ids": input_ids, "attention_mask": mask, "labels": self.targets[rows]}


def tokenize_rows(
    texts: Sequence[str], targets: Tensor, tokenizer: Tokenizer, max_length: int, places: Tensor | None = None
) -> TokenRows:
    """Return texts, targets (texts,), as tokens, each cut to `max_length`, with the tokenizer's marks around a text."""
    found = tokenized(texts, tokenizer, whole=max_length)
    return TokenRows(found.tokens, found.edges.tolist(), targets, tokenizer.padding, places)
