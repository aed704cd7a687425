"""Tokens of documents: made once, kept in the data cache by the content of the text, and mapped from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from blake3 import blake3
from torch import Tensor

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.canonical import digest_path
from trainwright.trainer.data.mapped import Mapped, Rows, mapped
from trainwright.trainer.data.text.tokenizers import LibraryTokenizer, Tokenizer
from trainwright.trainer.data.text.turns import Pieces

VERSION = 1
"""Of the tokens and how they are made: entries of another version are not read."""
MAPPED_FROM_CHARACTERS = 1 << 16
"""Text up to this length is tokenized each time, in memory."""
TOKENS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Tokenized:
    """Tokens of documents."""

    tokens: Tensor
    """All documents' tokens one after the other, (tokens,) of int32."""
    counted: Tensor | None
    """Which of them are targets, (tokens,) of bool; None: all."""
    edges: Array
    """Where each document begins, and where the last ends: (documents + 1,) of int64."""
    bytes_per_token: float
    """Mean UTF-8 bytes per target."""


def tokenized(documents: Sequence[str | Pieces], tokenizer: Tokenizer, *, whole: int | None = None) -> Tokenized:
    """Return the tokens of documents.

    Args:
        documents: texts, or texts in pieces.
        tokenizer: turns each piece into tokens; its boundary precedes each document.
        whole: cut each document, a text by itself with the tokenizer's marks around it, to so many tokens.
    """
    length = sum(len(text) for document in documents for text, _ in _pieces(document))
    if length <= MAPPED_FROM_CHARACTERS:
        return _in_memory(documents, tokenizer, whole)
    marked = any(not isinstance(document, str) for document in documents)
    key = ["tokens", VERSION, _identity(tokenizer), whole, marked, _content(documents)]
    return _joined(mapped(key, lambda rows: _write(rows, documents, tokenizer, whole)), is_marked=marked)


def _in_memory(documents: Sequence[str | Pieces], tokenizer: Tokenizer, whole: int | None) -> Tokenized:
    rows = _Kept()
    about = _write(rows, documents, tokenizer, whole)
    arrays = {name: torch.from_numpy(np.concatenate(parts)) for name, parts in rows.parts.items()}
    marked = any(not isinstance(document, str) for document in documents)
    return _joined(Mapped(arrays, about), is_marked=marked)


class _Kept(Rows):
    """Rows in memory rather than in files."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.parts: dict[str, list[Array]] = {}

    def add(self, **parts: Array) -> None:
        """Add rows to every array."""
        for name, part in parts.items():
            self.parts.setdefault(name, []).append(part)


def _joined(found: Mapped, *, is_marked: bool) -> Tokenized:
    """Return the arrays as they are used; `counted` only where pieces differ in it."""
    counted = found.arrays["counted"] if is_marked else None
    edges = found.arrays["edges"].numpy()
    return Tokenized(found.arrays["tokens"], counted, edges, found.about["bytes_per_token"])


def _write(rows: Rows, documents: Sequence[str | Pieces], tokenizer: Tokenizer, whole: int | None) -> dict[str, Any]:
    """Add tokens, marks and edges to the rows; return what else is known of them."""
    place, tokens, counted, edges = 0, [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.bool_)], [0]
    target_bytes = targets = waiting = 0
    for document in documents:
        for numbers, counts, size in _encoded(document, tokenizer, whole):
            tokens.append(numbers)
            counted.append(np.full(len(numbers), counts))
            target_bytes += size * counts
            targets += len(numbers) * counts * (size > 0)
            place, waiting = place + len(numbers), waiting + len(numbers)
        edges.append(place)
        if waiting > TOKENS_AT_ONCE:
            rows.add(tokens=np.concatenate(tokens), counted=np.concatenate(counted))
            tokens, counted, waiting = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.bool_)], 0
    rows.add(tokens=np.concatenate(tokens), counted=np.concatenate(counted), edges=np.array(edges, dtype=np.int64))
    return {"bytes_per_token": target_bytes / max(targets, 1)}


def _encoded(document: str | Pieces, tokenizer: Tokenizer, whole: int | None) -> Iterator[tuple[Array, bool, int]]:
    """Yield a document's tokens by piece, whether they are targets, and the bytes of their text (0: a mark)."""
    if whole is not None:
        text = document if isinstance(document, str) else "".join(text for text, _ in document)
        yield tokenizer.encode_whole(text, whole), True, len(text.encode())
        return
    if tokenizer.boundary is not None and (isinstance(document, str) or type(tokenizer) is not LibraryTokenizer):
        yield np.array([tokenizer.boundary], dtype=np.int32), isinstance(document, str), 0
    for text, counts in _pieces(document):
        yield tokenizer.encode(text), counts, len(text.encode())


def _pieces(document: str | Pieces) -> Pieces:
    return [(document, True)] if isinstance(document, str) else document


def _identity(tokenizer: Tokenizer) -> list[Any]:
    """Return all that decides a tokenizer's tokens."""
    if type(tokenizer) is LibraryTokenizer:
        versions = [metadata.version(name) for name in ("transformers", "tokenizers")]
        return ["library", digest_path(tokenizer.folder), *versions]
    return [tokenizer.as_dict()]


def _content(documents: Sequence[str | Pieces]) -> str:
    """Return the digest of all documents, with their edges."""
    hasher = blake3()
    for document in documents:
        for text, counts in _pieces(document):
            data = text.encode()
            hasher.update(f"{len(data)}{'+' if counts else '-'}".encode())
            hasher.update(data)
        hasher.update(b"\n")
    return hasher.hexdigest()
