"""Rows of encoded text: values of differing lengths by name, filled up to the longest of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.data.tensors import InMemory


@dataclass(frozen=True)
class Ragged:
    """Values of one name, as many for each text as it has tokens."""

    values: Tensor
    """Those of all texts one after the other, (values,) of int32."""
    edges: Tensor
    """Where each text's begin, and where the last ends: (texts + 1,) of int64."""
    filling: int
    """Behind the end of a text that is shorter than others of its batch."""

    @classmethod
    def of(cls, texts: Iterable[Sequence[int]], filling: int) -> Ragged:
        """Return the values of some texts, (tokens of the text,) each."""
        arrays = [np.asarray(text, dtype=np.int32) for text in texts]
        edges = np.concatenate([[0], np.cumsum([len(array) for array in arrays], dtype=np.int64)])
        values = np.concatenate([*arrays, np.empty(0, dtype=np.int32)])
        return cls(torch.from_numpy(values), torch.from_numpy(edges), filling)

    @property
    def lengths(self) -> Tensor:
        """How many values each text has, (texts,)."""
        return self.edges[1:] - self.edges[:-1]

    def padded(self, texts: Tensor) -> Tensor:
        """Return the values of some texts, (texts,), as (texts, longest of them) of int64."""
        lengths = self.lengths[texts]
        within = torch.arange(int(lengths.max()) if len(lengths) else 0)
        places = (self.edges[texts][:, None] + within).clamp_(max=max(len(self.values) - 1, 0))
        return self.values[places].long().masked_fill_(within >= lengths[:, None], self.filling)


@dataclass(eq=False)
class EncodedRows(InMemory):
    """Sample i is a mapping as the Transformers library names it: input_ids, attention_mask, …, labels."""

    ragged: dict[str, Ragged]
    """By name; those of one sample follow each other."""
    plain: dict[str, Tensor] = field(default_factory=dict)
    """Values of one shape for every sample, by name, (samples, ...)."""
    texts: int | None = None
    """How many texts a sample has, where it is (texts, tokens); None: one, (tokens,)."""
    rows: list[int] = field(default_factory=list)
    """Numbers of the rows, among all of the source, that the samples were made of."""

    def __len__(self) -> int:
        return len(next(iter(self.ragged.values())).lengths) // (self.texts or 1)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: part[0] for name, part in self.gather([range(len(self))[index]]).items()}

    def gather(self, indices: Sequence[int] | Tensor) -> dict[str, Tensor]:
        """Return a batch by name: (samples, tokens) or (samples, texts, tokens) of int64, and (samples, ...)."""
        rows = torch.as_tensor(indices, dtype=torch.int64)
        places = rows
        if self.texts is not None:
            places = (rows[:, None] * self.texts + torch.arange(self.texts)).flatten()
        batch = {name: each.padded(places) for name, each in self.ragged.items()}
        if self.texts is not None:
            batch = {name: value.view(len(rows), self.texts, -1) for name, value in batch.items()}
        return batch | {name: value[rows] for name, value in self.plain.items()}

    @property
    def lengths(self) -> Tensor:
        """Tokens of each sample's longest text, (samples,)."""
        lengths = next(iter(self.ragged.values())).lengths
        return lengths if self.texts is None else lengths.view(-1, self.texts).amax(1)

    @property
    def longest(self) -> int:
        """Tokens of the longest input."""
        return int(self.lengths.max()) if len(self) else 0


def with_mask(input_ids: Ragged) -> dict[str, Ragged]:
    """Return tokens with their attention mask: 1 for each, 0 where a batch is filled up."""
    mask = Ragged(torch.ones_like(input_ids.values), input_ids.edges, 0)
    return {"input_ids": input_ids, "attention_mask": mask}
