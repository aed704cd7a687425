"""Splits of conversations: divided before anything is measured on them, with the assistant's tokens as targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.data.fingerprint import sample_digest
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.rows import Indices
from trainwright.trainer.data.splits import Splits, split_indices
from trainwright.trainer.data.text.build_tokenizer import build_tokenizer
from trainwright.trainer.data.text.chat import PLAIN_TEMPLATE, messages_of, rendered_by
from trainwright.trainer.data.text.language import splits_of_blocks
from trainwright.trainer.data.text.row_splits import keys_of
from trainwright.trainer.data.text.tokenizers import LibraryTokenizer
from trainwright.trainer.data.text.turns import Pieces, rendered_plainly


def chat_splits(
    rows: Sequence[tuple[str, dict[str, Any]]],
    section: SplitSection,
    *,
    source: str,
    tokenizer: str | Path,
    block_size: int,
    files: list[Path],
    is_packed: bool = False,
) -> Splits:
    """Return splits of blocks of conversations; equal ones go to the same split.

    Args:
        rows: of each, its place and its columns.

    Raises:
        DataError: a row holds no conversation that can be rendered, or there is too little text for the split.
    """
    library = LibraryTokenizer(tokenizer) if isinstance(tokenizer, Path) else None
    documents = [rendered(place, row, library) for place, row in rows]
    chosen = chosen_rows(rows, documents, section)
    parts = {name: [documents[row] for row in found] for name, found in chosen.items() if len(found)}
    if library is None:
        made = build_tokenizer(tokenizer, ["".join(text for text, _ in pieces) for pieces in parts["train"]])
    else:
        made = library
    template = PLAIN_TEMPLATE if library is None else digest_bytes(str(library.inner.chat_template).encode())
    return splits_of_blocks(
        parts,
        made,
        section,
        source=source,
        block_size=block_size,
        way="document",
        files=files,
        chat_template=template,
        is_packed=is_packed,
    )


def chosen_rows(
    rows: Sequence[tuple[str, dict[str, Any]]], documents: Sequence[Pieces], section: SplitSection
) -> dict[str, Indices]:
    """Return the numbers of the rows of each split; equal conversations are in one. Raises as `chat_splits`."""
    digests = [sample_digest("".join(text for text, _ in pieces)) for pieces in documents]
    return split_indices(digests, None, section, keys_of(rows, section))


def rendered(place: str, row: dict[str, Any], library: LibraryTokenizer | None) -> Pieces:
    """Return a row's conversation as text. Raises DataError where it holds none, or none that can be rendered."""
    messages = messages_of(row, lambda: place)
    return rendered_plainly(messages) if library is None else rendered_by(library, messages, lambda: place)
