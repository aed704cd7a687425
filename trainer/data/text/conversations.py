"""Splits of conversations: divided before anything is measured on them, with the assistant's tokens as targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import DataError, near
from trainwright.trainer.data.fingerprint import sample_digest
from trainwright.trainer.data.sections import BY_NAMES, SplitSection
from trainwright.trainer.data.split_methods.rows import without_keys
from trainwright.trainer.data.splits import Splits, split_indices
from trainwright.trainer.data.text.chat import PLAIN_TEMPLATE, messages_of, rendered_by, rendered_plainly
from trainwright.trainer.data.text.language import splits_of_blocks
from trainwright.trainer.data.text.tokenizers import LibraryTokenizer, build_tokenizer
from trainwright.trainer.data.text.tokens import Pieces


def chat_splits(
    rows: Sequence[tuple[str, dict[str, Any]]],
    section: SplitSection,
    *,
    source: str,
    tokenizer: str | Path,
    block_size: int,
    files: list[Path],
) -> Splits:
    """Return splits of blocks of conversations; equal ones go to the same split.

    Args:
        rows: of each, its place and its columns.

    Raises:
        DataError: a row holds no conversation that can be rendered, or there is too little text for the split.
    """
    library = LibraryTokenizer(tokenizer) if isinstance(tokenizer, Path) else None
    documents = [_rendered(place, row, library) for place, row in rows]
    digests = [sample_digest("".join(text for text, _ in pieces)) for pieces in documents]
    chosen = split_indices(digests, None, section, _key(rows, section))
    parts = {name: [documents[row] for row in found] for name, found in chosen.items() if len(found)}
    if library is None:
        made = build_tokenizer(tokenizer, ["".join(text for text, _ in pieces) for pieces in parts["train"]])
    else:
        made = library
    template = PLAIN_TEMPLATE if library is None else digest_bytes(str(library.inner.chat_template).encode())
    return splits_of_blocks(
        parts, made, section, source=source, block_size=block_size, way="document", files=files, chat_template=template
    )


def _rendered(place: str, row: dict[str, Any], library: LibraryTokenizer | None) -> Pieces:
    messages = messages_of(row, lambda: place)
    return rendered_plainly(messages) if library is None else rendered_by(library, messages, lambda: place)


def _key(rows: Sequence[tuple[str, dict[str, Any]]], section: SplitSection) -> Any:
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
