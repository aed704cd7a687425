"""Masked language modelling: some tokens of a block are hidden, and those are to be told (BERT's way).

Devlin et al. 2019, arXiv:1810.04805: of the chosen tokens 80 % become the mask, 10 % another token, 10 % stay. The
choice is made anew each time a sample is drawn, from generators that the loader keys to (seed, epoch, sample).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.tensors import IGNORED
from trainwright.trainer.data.text.blocks import cut
from trainwright.trainer.data.text.tokenizers import LibraryTokenizer, Tokenizer
from trainwright.trainer.data.text.tokens import tokenized
from trainwright.trainer.data.text.turns import Pieces

MASKED, REPLACED = 0.8, 0.1
"""Of the chosen tokens: how many become the mask, and how many another token."""


@dataclass(frozen=True)
class Masking:
    """How tokens are hidden."""

    share: float
    """Of the tokens."""
    mask: int
    """Number of the token that stands for a hidden one."""
    vocabulary_size: int
    special: tuple[int, ...]
    """Tokens that are never hidden."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, share: float) -> Masking:
        """Return the masking with a tokenizer's mask; the built-in ones get one behind their vocabulary.

        Raises:
            DataError: the tokenizer has none.
        """
        if not isinstance(tokenizer, LibraryTokenizer):
            boundary = () if tokenizer.boundary is None else (tokenizer.boundary,)
            return cls(share, tokenizer.vocabulary_size, tokenizer.vocabulary_size + 1, boundary)
        mask = tokenizer.inner.mask_token_id
        if mask is None:
            raise DataError(
                f"The tokenizer in {tokenizer.folder.name} has no mask token, so nothing can be hidden.",
                remedy="Use a model made for it (BERT and its kin) with its tokenizer, or take data.args.masked out "
                "and model the next token: loss next_token.",
                details={"changes": {"data.args.masked": None, "loss": "next_token"}},
            )
        return cls(
            share, int(mask), tokenizer.vocabulary_size, tuple(sorted(map(int, tokenizer.inner.all_special_ids)))
        )


@dataclass(eq=False)
class MaskedBlocks(Dataset[dict[str, Tensor]]):
    """Sample i is a mapping of input_ids, attention_mask and labels, each (block_size,) of int64.

    Labels are the tokens that were hidden, IGNORED elsewhere; a block always has at least one.
    """

    tokens: Tensor
    """All documents' tokens one after the other, (tokens,) of int32."""
    starts: Tensor
    """First token of each block, (blocks,)."""
    lengths: Tensor
    """Tokens of each block, (blocks,), 1 to block_size."""
    block_size: int
    padding: int
    masking: Masking

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        start, length = int(self.starts[index]), int(self.lengths[index])
        tokens = self.tokens[start : start + length].long()
        inputs, chosen = hidden(tokens, self.masking)
        filled = {
            "input_ids": (inputs, self.padding),
            "attention_mask": (torch.ones_like(tokens), 0),
            "labels": (torch.where(chosen, tokens, IGNORED), IGNORED),
        }
        room = self.block_size - length
        return {name: torch.nn.functional.pad(value, (0, room), value=by) for name, (value, by) in filled.items()}

    def keep(self, chosen: Sequence[int]) -> MaskedBlocks:
        """Return the chosen blocks."""
        rows = torch.tensor(chosen, dtype=torch.int64)
        return replace(self, starts=self.starts[rows], lengths=self.lengths[rows])

    def contents(self) -> list[bytes]:
        """Return an identity of each block's text, block by block."""
        tokens, edges = self.tokens.numpy(), zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        return [tokens[start : start + length].tobytes() for start, length in edges]

    def targets(self) -> list[int]:
        """Return how many tokens each block has."""
        return [int(length) for length in self.lengths]


def hidden(tokens: Tensor, masking: Masking) -> tuple[Tensor, Tensor]:
    """Return the tokens with some hidden, and which were chosen, both (tokens,); drawn from torch's generator."""
    may = ~torch.isin(tokens, torch.tensor(masking.special, dtype=tokens.dtype))
    draws, kinds = torch.rand(len(tokens)), torch.rand(len(tokens))
    others = torch.randint(masking.vocabulary_size, (len(tokens),))
    chosen = may & (draws < masking.share)
    if not bool(chosen.any()) and bool(may.any()):
        chosen[int(torch.where(may, draws, 2.0).argmin())] = True
    inputs = torch.where(chosen & (kinds < MASKED), masking.mask, tokens)
    inputs = torch.where(chosen & (kinds >= MASKED) & (kinds < MASKED + REPLACED), others, inputs)
    return inputs, chosen


def cut_to_be_masked(
    documents: Sequence[str | Pieces], tokenizer: Tokenizer, block_size: int, share: float
) -> MaskedBlocks:
    """Return the blocks of some documents, none of which reaches over a document's end; each token is in one."""
    found = tokenized(documents, tokenizer)
    starts, lengths = cut(found.edges[:-1], np.diff(found.edges), block_size)
    blocks = MaskedBlocks(found.tokens, starts, lengths, block_size, tokenizer.padding, Masking.of(tokenizer, share))
    marks = torch.tensor(blocks.masking.special, dtype=found.tokens.dtype)
    edges = zip(blocks.starts.tolist(), blocks.lengths.tolist(), strict=True)
    ordinary = [bool((~torch.isin(found.tokens[at : at + size], marks)).any()) for at, size in edges]
    return blocks.keep([number for number, has_some in enumerate(ordinary) if has_some])
