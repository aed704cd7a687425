"""The splits of a text for language modelling, and the record of how they were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainwright.trainer.config.schema import SplitSection
from trainwright.trainer.data.fingerprint import record_split
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.text.blocks import TokenBlocks, cut_into_blocks
from trainwright.trainer.data.text.documents import divide
from trainwright.trainer.data.text.tokenizers import build_tokenizer
from trainwright.trainer.errors import DataError


@dataclass(frozen=True)
class TextRecord:
    """How text became tokens: what the evidence says of it, and what deployment needs to do the same."""

    tokenizer: dict[str, Any]
    vocabulary_size: int
    padding: int
    block_size: int | None
    """Tokens of a block; None where samples are whole texts."""
    split_by: str | None
    pieces: dict[str, int]
    """Documents, or parts of them, in each split."""
    tokens: dict[str, int]
    """Tokens to predict in each split."""
    longest: int
    """Tokens of the longest input."""
    dropped_blocks: int
    """Blocks of validation and test that were left out because their text is in a split before them."""

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
) -> Splits:
    """Return splits of blocks that share no text.

    Raises:
        DataError: too little text for the split.
    """
    texts, way = divide(documents, section, split_by)
    made = build_tokenizer(tokenizer, texts.get("train", []))
    blocks = {name: cut_into_blocks(parts, made, block_size) for name, parts in texts.items()}
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
        made.as_dict(),
        made.vocabulary_size,
        made.padding,
        block_size,
        way,
        {name: len(parts) for name, parts in texts.items()},
        {name: int(split.lengths.sum()) for name, split in blocks.items()},
        block_size,
        before - sum(map(len, blocks.values())),
    )
    return Splits(
        dict(blocks),
        {name: record_split(split, section.seed, name) for name, split in blocks.items()},
        source,
        files=files,
        split=section.model_dump(mode="json"),
        text=record,
    )


def _apart(blocks: dict[str, TokenBlocks]) -> dict[str, TokenBlocks]:
    """Leave out of validation and test what stands word for word in a split before: headers, licences, short ends."""
    seen: set[bytes] = set()
    kept = {}
    for name, split in blocks.items():
        contents = split.contents()
        kept[name] = split if not seen else split.keep([n for n, text in enumerate(contents) if text not in seen])
        seen.update(contents)
    return kept
