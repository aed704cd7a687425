"""A column of texts in a table: to classify, or, without a target, to model as language."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.fingerprint import record_split, sample_digest
from trainwright.trainer.data.sections import BY_NAMES, SplitSection
from trainwright.trainer.data.sources.cells import Cells
from trainwright.trainer.data.sources.reading import Reading
from trainwright.trainer.data.sources.targets import read_targets
from trainwright.trainer.data.sources.text_files import find_tokenizer
from trainwright.trainer.data.split_methods.facts import facts_of
from trainwright.trainer.data.splits import Splits, split_indices
from trainwright.trainer.data.text.blocks import tokenize_rows
from trainwright.trainer.data.text.language import TextRecord, language_splits
from trainwright.trainer.data.text.tokenizers import build_tokenizer

if TYPE_CHECKING:
    from trainwright.trainer.data.sources.tables import Texts

Key = np.ndarray[Any, Any] | None


def text_splits(table: Texts, code_root: Path, split: SplitSection) -> Splits:
    """Return the splits of a table with a column of texts.

    Raises:
        ConfigurationError, DataError: the configuration or the file is wrong.
    """
    reading = Reading(table, table.files(code_root))
    cells = reading.cells()
    key = reading.splits(code_root) if split.key == BY_NAMES else _key(cells, split)
    tokenizer = find_tokenizer(table.tokenizer, code_root)
    if table.target is None:
        return language_splits(
            _texts(cells, table.text),
            split,
            source=table.name,
            tokenizer=tokenizer,
            block_size=table.block_size,
            split_by=table.split_by,
            files=reading.sources,
            key=key,
            masked=table.masked,
            is_packed=table.packed,
        )
    found = _classified(table, cells, split, key, tokenizer)
    return replace(found, files=reading.sources, skipped=reading.skipped)


def _key(table: Cells, split: SplitSection) -> Key:
    """Return the column that the split needs, (rows,)."""
    return None if split.key is None else np.array(table.column(split.key, split.key_option))


def _texts(table: Cells, name: str) -> list[str]:
    texts = table.column(name, "data.args.text")
    for row, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            found = "empty" if text is None or isinstance(text, str) else f"a {type(text).__name__}"
            raise DataError(
                f"{table.where(row)}, column {name!r}: the text is {found}.", remedy="Fill it in or drop the row."
            )
    return texts


def _classified(table: Texts, cells: Cells, split: SplitSection, key: Key, tokenizer: str | Path) -> Splits:
    """Split the texts (equal ones together), then learn the characters from the train split alone."""
    targets, names = read_targets(cells, table.targets, table.asked)
    texts = _texts(cells, table.text)
    digests = [sample_digest(text) for text in texts]
    is_classes = targets.dtype.kind == "i"  # several labels or numbers are drawn without strata
    indices = split_indices(digests, targets if is_classes else None, split, key)
    chosen = {name: found for name, found in indices.items() if len(found)}
    made = build_tokenizer(tokenizer, (texts[row] for row in chosen["train"]))
    samples = {
        name: tokenize_rows(
            [texts[row] for row in rows],
            torch.from_numpy(targets[rows]),
            made,
            table.max_length,
            torch.from_numpy(rows),
        )
        for name, rows in chosen.items()
    }
    tokens = {name: len(part.tokens) for name, part in samples.items()}
    longest = max(max(b - a for a, b in pairwise(part.edges)) for part in samples.values())
    return Splits(
        dict(samples),
        {name: record_split(part, split.seed, name) for name, part in samples.items()},
        table.name,
        class_names=names,
        target_names=table.targets if targets.ndim > 1 else None,
        split=split.describe() | facts_of(split, key, chosen),
        text=TextRecord.of_rows(made, chosen, tokens, longest),
    )
