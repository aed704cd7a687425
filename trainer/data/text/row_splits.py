"""Splits of rows that become one sample each, or some: divided first, so that a tokenizer learns from train alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.base.errors import DataError, near
from trainwright.trainer.data.fingerprint import record_split, sample_digest
from trainwright.trainer.data.sections import BY_NAMES, SplitSection
from trainwright.trainer.data.split_methods.facts import facts_of
from trainwright.trainer.data.split_methods.rows import without_keys
from trainwright.trainer.data.splits import Splits, split_indices
from trainwright.trainer.data.tensors import InMemory
from trainwright.trainer.data.text.language import TextRecord
from trainwright.trainer.data.text.tokenizers import Tokenizer, build_tokenizer

# Rows of encoded text: values of differing lengths by name, filled up to the longest of a batch.


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


Row = tuple[str, dict[str, Any]]
"""A row's place, for messages, and its columns."""
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Encoding(Generic[Kind]):
    """How rows of a task become samples."""

    task: str
    """Of the model, as models/tasks.py names it."""
    texts: Callable[[Kind], Sequence[str]]
    """Returns the texts of a row, from which a tokenizer may learn."""
    encode: Callable[[Tokenizer, Sequence[Kind]], EncodedRows]
    class_names: list[str] | None = None
    shared: Callable[[Kind], Sequence[str]] | None = None
    """Returns the texts that rows share: rows in which they are equal go to the same split; None: all texts."""
    outputs: int | None = None
    """Of the model, where neither classes nor the vocabulary say how many."""


def row_splits(
    rows: Sequence[Row],
    read: Sequence[Kind],
    encoding: Encoding[Kind],
    section: SplitSection,
    *,
    source: str,
    tokenizer: str | Path,
    files: list[Path],
) -> Splits:
    """Return splits of encoded rows; rows that share their texts go to the same split.

    Args:
        rows: of each, its place and its columns, for what the split needs.
        read: what was read of each row.

    Raises:
        DataError: too few rows for the split, a tokenizer that cannot encode them, or a column that is not there.
    """
    key = keys_of(rows, section)
    shared = encoding.shared or encoding.texts
    digests = [sample_digest(list(shared(each))) for each in read]
    found = split_indices(digests, None, section, key)
    chosen = {name: places for name, places in found.items() if len(places)}
    made = build_tokenizer(tokenizer, (text for row in chosen["train"] for text in encoding.texts(read[row])))
    samples = {
        name: replace(encoding.encode(made, [read[row] for row in places]), rows=[int(row) for row in places])
        for name, places in chosen.items()
    }
    tokens = {name: int(part.ragged["input_ids"].edges[-1]) for name, part in samples.items()}
    splits = Splits(
        dict(samples),
        {name: record_split(part, section.seed, name) for name, part in samples.items()},
        source,
        class_names=encoding.class_names,
        files=files,
        split=section.describe() | facts_of(section, key, chosen),
        text=TextRecord.of_rows(made, chosen, tokens, max(part.longest for part in samples.values())),
    )
    return replace(splits, task=encoding.task, outputs=encoding.outputs)


def keys_of(rows: Sequence[Row], section: SplitSection) -> Any:
    """Return the column that the split needs, (rows,). Raises DataError for a row that has it not."""
    if section.key is None:
        return None
    if section.key == BY_NAMES:
        raise without_keys(section)
    for place, row in rows:
        if row.get(section.key) is None:
            meant = near(section.key, map(str, row))
            raise DataError(
                f"{place} has no {section.key!r}, by which the data are split.",
                remedy=f"Name one of its columns in data.split: {', '.join(map(str, row))}.",
                details={"changes": {section.key_option: meant[0]}} if meant else {},
            )
    return np.array([row[section.key] for _, row in rows])


def cell_of(row: Row, column: str, argument: str) -> Any:
    """Return a row's cell. Raises DataError where the row has no such column, or nothing in it."""
    place, cells = row
    cell = cells.get(column)
    if cell is None or (isinstance(cell, str | list) and not cell):
        meant = near(column, map(str, cells)) if column not in cells else None
        raise DataError(
            f"{place} has no {column!r} (data.args.{argument}); it has {', '.join(map(str, cells)) or 'no columns'}.",
            remedy=f"Name the column with data.args.{argument}, or drop the row.",
            details={"changes": {f"data.args.{argument}": meant[0]}} if meant else {},
        )
    return cell


def text_of(row: Row, column: str, argument: str) -> str:
    """Return a row's text. Raises DataError where it has none."""
    cell = cell_of(row, column, argument)
    if not isinstance(cell, str) or not cell.strip():
        found = "empty" if isinstance(cell, str) else f"a {type(cell).__name__}"
        raise DataError(
            f"{row[0]}, column {column!r}: the text is {found}.", remedy="Fill it in with text, or drop the row."
        )
    return cell
