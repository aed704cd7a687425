"""A column of texts in a table: to classify, or, without a target, to model as language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.paths import confine, confine_folder
from trainwright.trainer.data.fingerprint import record_split, sample_digest
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.table_readers import READERS, Table, files_of
from trainwright.trainer.data.sources.tabular import read_targets
from trainwright.trainer.data.sources.text_files import find_tokenizer
from trainwright.trainer.data.splits import Splits, split_indices
from trainwright.trainer.data.text.blocks import tokenize_rows
from trainwright.trainer.data.text.language import TextRecord, language_splits
from trainwright.trainer.data.text.tokenizers import build_tokenizer


def text_table_splits(
    kind: str,
    section: SplitSection,
    code_root: Path,
    *,
    path: str,
    text: str,
    target: str | None = None,
    task: str | None = None,
    tokenizer: str = "bytes",
    max_length: int = 128,
    block_size: int = 128,
    split_by: str | None = None,
    **reading: Any,
) -> Splits:
    """Read a table with a column of texts.

    Args:
        text: the column of texts.
        target: the column to predict from them; left out: the texts themselves are modelled, each row a document.
        max_length: tokens to which a text is cut; for classification.
        block_size, split_by: as of the source `text`; for language modelling.

    Raises:
        ConfigurationError, DataError: as what is wrong deserves.
    """
    file = (confine_folder if kind == "arrow" else confine)(path, code_root, key="data.args.path")
    table = READERS[kind](file, **reading)
    texts = _texts(table, text)
    found = find_tokenizer(tokenizer, code_root)
    if target is None:
        return language_splits(
            texts, section, source=kind, tokenizer=found, block_size=block_size, split_by=split_by, files=files_of(file)
        )
    targets, names = read_targets(table, target, task)
    rows = _Rows(file, texts, targets, names)
    return _classified(rows, section, source=kind, tokenizer=found, max_length=max_length)


@dataclass(frozen=True)
class _Rows:
    file: Path
    texts: Sequence[str]
    targets: Tensor
    class_names: list[str] | None


def _texts(table: Table, name: str) -> list[str]:
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
