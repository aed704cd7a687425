"""Language-modelling splits: documents, divided before anything is measured on them, and their record."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence, Sized
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from blake3 import blake3
from torch import Tensor

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.fingerprint import record_split
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.file_kinds import kind_of_file
from trainwright.trainer.data.sources.source import unreadable
from trainwright.trainer.data.splits import Splits, split_indices
from trainwright.trainer.data.tensors import IGNORED, InMemory
from trainwright.trainer.data.text.blocks import TokenBlocks, cut_into_blocks
from trainwright.trainer.data.text.masked import MaskedBlocks, Masking, cut_to_be_masked
from trainwright.trainer.data.text.tokenizers import Tokenizer, build_tokenizer
from trainwright.trainer.data.text.turns import Pieces

DOCUMENTS_TO_SPLIT_BY = 20
"""With fewer, documents are too coarse a unit for the shares of a split."""


def _read(path: Path) -> str:
    data = b""
    try:
        data = path.read_bytes()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if kind_of_file(path) is not None:
            raise unreadable(path, error) from error
        line = data.count(b"\n", 0, error.start) + 1
        around = data[max(error.start - 12, 0) : error.start + 12].decode("latin-1").strip()
        raise DataError(
            f"{path.name} cannot be read as UTF-8 text: line {line} has the byte "
            f"0x{data[error.start]:02x}, which in Latin-1 reads as {around!r}.",
            remedy=f"If that is what it says, convert the file, for example `iconv -f LATIN1 -t UTF-8 {path.name}`; or "
            "leave it out of data.args.path, which may be a list or a pattern.",
            details={"file": path.name, "line": line},
        ) from error
    except OSError as error:
        raise DataError(
            f"{path.name} cannot be read: {error.strerror}.",
            remedy="Let the server's user read it, or leave it out of data.args.path.",
        ) from error


def read_documents(paths: Sequence[Path], separator: str | None) -> list[str]:
    """Return the documents of text files: each file one, or as many as `separator` divides it into.

    Raises:
        DataError: a file cannot be read, is no UTF-8, or there is no text in any of them.
    """
    documents: list[str] = []
    for path in paths:
        text = _read(path)
        documents += text.split(separator) if separator else [text]
    documents = [document for document in documents if document.strip()]
    if not documents:
        raise DataError("There is no text in the files.", remedy="Point data.args.path at files with text in them.")
    return documents


def divide(
    documents: Sequence[str], section: SplitSection, split_by: str | None, key: Array | None = None
) -> tuple[dict[str, list[str]], str]:
    """Return the texts of each split and how they were divided.

    document: each document goes to one split, equal documents to the same. position: the beginning of each document is
    for training, then comes validation, its end is for the test.

    Args:
        documents: texts.
        section: shares, and what decides where they are documents.
        split_by: document or position; None: by document where there are enough, or something decides on documents.
        key: of each document the value that the split needs, (documents,).

    Raises:
        DataError: too few documents, or text, for the split; or one by position that is to be by something else too.
    """
    is_plain = section.by == "random" and section.folds is None
    enough = len(set(documents)) >= DOCUMENTS_TO_SPLIT_BY or not is_plain
    way = split_by or ("document" if enough else "position")
    if way == "position" and not is_plain:
        raise DataError(
            f"data.args.split_by position divides each text by itself, and data.split asks for by {section.by}"
            + (f" with {section.folds} folds." if section.folds is not None else "."),
            remedy="configure(changes={'data.args.split_by': 'document'}), or {'data.split': null}.",
        )
    if way == "document":
        digests = [blake3(document.encode("utf-8")).hexdigest() for document in documents]
        found = split_indices(digests, None, section, key)
        return {name: [documents[n] for n in chosen] for name, chosen in found.items() if len(chosen)}, way
    splits: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    for document in dict.fromkeys(documents):  # a copy's beginning would be another's end
        size = len(document)
        first = round(size * (1.0 - section.validation - section.test))
        second = round(size * (1.0 - section.test)) if section.test else size
        parts = (document[:first], document[first:second], document[second:])
        for name, part in zip(splits, parts, strict=True):
            splits[name] += [part] if part else []
    return {name: parts for name, parts in splits.items() if parts}, way


@dataclass(frozen=True)
class TextRecord:
    """Tokenization of the text, for the evidence and for a deployment that must do the same."""

    tokenizer: dict[str, Any]
    vocabulary_size: int
    padding: int
    block_size: int | None
    """Tokens of a block; None where samples are complete texts."""
    split_by: str | None
    pieces: dict[str, int]
    """Documents, or parts of them, in each split."""
    tokens: dict[str, int]
    """Tokens to predict in each split."""
    longest: int
    """Tokens of the longest input."""
    dropped_blocks: int
    """Blocks of validation and test that were left out because their text is in a split before them."""

    @classmethod
    def of_rows(cls, made: Tokenizer, rows: Mapping[str, Sized], tokens: dict[str, int], longest: int) -> TextRecord:
        """Return the record of texts that are a sample each, or some, by the rows of each split."""
        pieces = {name: len(each) for name, each in rows.items()}
        return cls(made.as_dict(), made.vocabulary_size, made.padding, None, None, pieces, tokens, longest, 0)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return asdict(self)


def language_splits(
    documents: Sequence[str],
    section: SplitSection,
    *,
    source: str,
    tokenizer: str | Path,
    block_size: int,
    split_by: str | None,
    files: list[Path],
    key: Array | None = None,
    masked: float | None = None,
    is_packed: bool = False,
) -> Splits:
    """Return splits of blocks that share no text; with `masked` such a share of their tokens is to be told.

    Raises:
        DataError: too little text for the split.
    """
    texts, way = divide(documents, section, split_by, key)
    made = build_tokenizer(tokenizer, texts.get("train", []))
    return splits_of_blocks(
        texts, made, section, source=source, block_size=block_size, way=way, files=files, masked=masked,
        is_packed=is_packed,
    )  # fmt: skip


def splits_of_blocks(
    texts: Mapping[str, Sequence[str | Pieces]],
    tokenizer: Tokenizer,
    section: SplitSection,
    *,
    source: str,
    block_size: int,
    way: str,
    files: list[Path],
    chat_template: str | None = None,
    masked: float | None = None,
    is_packed: bool = False,
) -> Splits:
    """Return splits of blocks of documents that are divided already; a block is in one split alone.

    Raises:
        DataError: too little text for the split.
    """
    blocks: dict[str, Blocks] = {}
    for name, parts in texts.items():
        if masked is None:
            blocks[name] = cut_into_blocks(parts, tokenizer, block_size)
        else:
            blocks[name] = cut_to_be_masked(parts, tokenizer, block_size, masked)
    before = sum(map(len, blocks.values()))
    blocks = _apart(blocks)
    wanted = {"train": True, "validation": section.validation > 0, "test": section.test > 0}
    empty = [name for name, needed in wanted.items() if needed and not len(blocks.get(name, ()))]
    if empty:
        raise DataError(
            f"The text is too short for the split: {', '.join(empty)} would have no block of its own.",
            remedy="Give more text, lower data.args.block_size, or change data.split.",
        )
    record = TextRecord(
        tokenizer.as_dict() | ({"chat_template": chat_template} if chat_template else {}),
        tokenizer.vocabulary_size if masked is None else Masking.of(tokenizer, masked).vocabulary_size,
        tokenizer.padding,
        block_size,
        way,
        {name: len(parts) for name, parts in texts.items()},
        {name: sum(split.targets()) for name, split in blocks.items()},
        block_size,
        before - sum(map(len, blocks.values())),
    )
    samples: dict[str, Any] = dict(blocks)
    if is_packed:
        samples = {name: PackedBlocks(split) for name, split in blocks.items() if isinstance(split, TokenBlocks)}
    return Splits(
        samples,
        {name: record_split(split, section.seed, name) for name, split in samples.items()},
        source,
        files=files,
        split=section.describe(),
        text=record,
        task="masked_lm" if masked is not None else "causal_lm" if is_packed else None,
    )


Blocks = TokenBlocks | MaskedBlocks


def _apart(blocks: dict[str, Blocks]) -> dict[str, Blocks]:
    """Leave out of validation and test the blocks that an earlier split has, too: headers, licences, short ends."""
    seen: set[bytes] = set()
    kept: dict[str, Blocks] = {}
    for name, split in blocks.items():
        contents = split.contents()
        kept[name] = split if not seen else split.keep([n for n, text in enumerate(contents) if text not in seen])
        seen.update(contents)
    return kept


# Packed blocks: several documents in one block, apart from each other by positions that begin anew.
#
# A model of the Transformers library keeps such documents apart in its attention where it is given positions and no
# mask (`require_apart` of models/transformer.py). Best fit, longest first (Johnson 1974; Krell et al. 2021,
# arXiv:2107.02027).


class PackedBlocks(InMemory):
    """Sample i is a mapping of input_ids, position_ids and labels, each (block_size,) of int64.

    Positions count from 0 in each document. Filling behind the last one counts as a document without labels.
    """

    def __init__(self, parts: TokenBlocks) -> None:
        self.parts = parts
        self.groups = packed(parts.lengths.tolist(), parts.block_size)
        self.bytes_per_token = parts.bytes_per_token

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: value[0] for name, value in self.gather([range(len(self))[index]]).items()}

    def gather(self, indices: Sequence[int] | Tensor) -> dict[str, Tensor]:
        """Return a batch by name, each (samples, block_size) of int64."""
        samples = [self._one(int(index)) for index in indices]
        return {name: torch.stack([sample[name] for sample in samples]) for name in samples[0]}

    def _one(self, index: int) -> dict[str, Tensor]:
        parts, size = self.parts, self.parts.block_size
        tokens, labels = torch.full((size,), parts.padding), torch.full((size,), IGNORED)
        positions, place = torch.arange(size), 0
        for part in self.groups[index]:
            length = int(parts.lengths[part])
            inputs, targets = (value[0, :length] for value in parts.gather([part]))
            here = slice(place, place + length)
            tokens[here], labels[here], positions[here] = inputs, targets, torch.arange(length)
            place += length
        positions[place:] = torch.arange(size - place)
        return {"input_ids": tokens, "position_ids": positions, "labels": labels}

    @property
    def filled(self) -> float:
        """Share of the places that hold a document's tokens."""
        return float(self.parts.lengths.sum()) / max(len(self) * self.parts.block_size, 1)


def packed(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Return which parts share a block of `room` tokens; none is divided, and each is in one."""
    groups: list[list[int]] = []
    free: list[tuple[int, int]] = []
    for part in np.argsort(-np.asarray(lengths), kind="stable").tolist():
        place = bisect_left(free, (lengths[part], -1))
        left, group = free.pop(place) if place < len(free) else (room, len(groups))
        if group == len(groups):
            groups.append([])
        groups[group].append(part)
        insort(free, (left - lengths[part], group))
    return groups
