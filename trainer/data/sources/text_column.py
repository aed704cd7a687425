"""A column of texts in a table: to classify, or, without a target, to model as language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.fingerprint import record_split, sample_digest
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.tables import Cells, Texts, files_of
from trainwright.trainer.data.sources.tabular import read_targets
from trainwright.trainer.data.sources.text_files import find_tokenizer
from trainwright.trainer.data.splits import Splits, split_indices
from trainwright.trainer.data.text.blocks import tokenize_rows
from trainwright.trainer.data.text.language import TextRecord, language_splits
from trainwright.trainer.data.text.tokenizers import build_tokenizer


def text_splits(table: Texts, code_root: Path, split: SplitSection) -> Splits:
    """Return the splits of a table with a column of texts.

    Raises:
        ConfigurationError, DataError: as what is wrong deserves.
    """
    file = table.find(code_root)
    cells = table.cells(file)
    texts = _texts(cells, table.text)
    tokenizer = find_tokenizer(table.tokenizer, code_root)
    if table.target is None:
        return language_splits(
            texts,
            split,
            source=table.name,
            tokenizer=tokenizer,
            block_size=table.block_size,
            split_by=table.split_by,
            files=files_of(file),
        )
    targets, names = read_targets(cells, table.target, table.task)
    rows = _Rows(file, texts, targets, names)
    return _classified(rows, split, source=table.name, tokenizer=tokenizer, max_length=table.max_length)


@dataclass(frozen=True)
class _Rows:
    file: Path
    texts: Sequence[str]
    targets: Tensor
    class_names: list[str] | None


def _texts(table: Cells, name: str) -> list[str]:
    texts = table.column(name)
    for row, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            found = "empty" if text is None or isinstance(text, str) else f"a {type(text).__name__}"
            raise DataError(
                f"{table.where(row)}, column {name!r}: the text is {found}.", remedy="Fill it in or drop the row."
            )
    return texts


def _classified(rows: _Rows, section: SplitSection, *, source: str, tokenizer: str | Path, max_length: int) -> Splits:
    """Split the texts (equal ones together), then learn the characters from the train split alone."""
    labels = rows.targets.tolist() if rows.class_names is not None else None
    indices = split_indices([sample_digest(text) for text in rows.texts], labels, section)
    chosen = {name: found.tolist() for name, found in indices.items() if len(found)}
    made = build_tokenizer(tokenizer, (rows.texts[row] for row in chosen["train"]))
    samples = {
        name: tokenize_rows([rows.texts[n] for n in numbers], rows.targets[torch.tensor(numbers)], made, max_length)
        for name, numbers in chosen.items()
    }
    record = TextRecord(
        made.as_dict(),
        made.vocabulary_size,
        made.padding,
        None,
        None,
        {name: len(numbers) for name, numbers in chosen.items()},
        {name: len(split.tokens) for name, split in samples.items()},
        max(max(b - a for a, b in pairwise(split.edges)) for split in samples.values()),
        0,
    )
    return Splits(
        dict(samples),
        {name: record_split(split, section.seed, name) for name, split in samples.items()},
        source,
        class_names=rows.class_names,
        files=files_of(rows.file),
        split=section.model_dump(mode="json"),
        text=record,
    )
