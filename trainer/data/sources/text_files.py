"""Text files for language modelling."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.errors import ConfigurationError, near_matches
from trainwright.trainer.base.paths import confine, confine_folder, matching
from trainwright.trainer.base.section import Section
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.source import PATH, Files, Name

if TYPE_CHECKING:
    import polars as pl

    from trainwright.trainer.data.splits import Splits

Tokens = Annotated[int, Field(ge=1, le=2**20)]
BUILT_IN_TOKENIZERS = ("bytes", "characters", "bpe:2000")
TRAINED = re.compile(r"bpe:\d{1,7}")
"""Byte pairs, with the number of tokens to learn."""


class Modelling(Section):
    """How text becomes tokens."""

    tokenizer: Name = "bytes"
    """bytes, characters, bpe:2000 (so many tokens, trained on the train split), or a folder with a tokenizer of the
    Transformers library."""
    block_size: Tokens = 128
    """Tokens that a model sees at once; for language modelling."""
    split_by: Literal["document", "position"] | None = None
    """document: each goes to one split. position: each document's beginning is for training, its end for the test.
    Left out: as the number of documents has it. For language modelling."""
    masked: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Share of the tokens that are hidden and to be told (0.15 is BERT's), with loss masked_token; left out: the next
    token is. For language modelling."""
    packed: bool = False
    """Fill a block with several documents that do not see each other; else a document's last block is filled up. For
    causal models of the Transformers library."""

    @model_validator(mode="after")
    def _packed_or_masked(self) -> Self:
        if self.packed and self.masked is not None:
            raise ValueError("packed is for the next token: give packed or masked, not both")
        return self


class Text(Modelling, Files):
    """Text files for language modelling."""

    name: ClassVar[str] = "text"
    endings: ClassVar[tuple[str, ...]] = ("txt",)

    path: Name | Annotated[list[Name], Field(min_length=1)]
    """A file, several, or patterns (`docs/*.md`)."""
    separator: Name | None = None
    """Text between two documents of one file; without it a file is one document."""

    def load(self, code_root: Path, split: SplitSection) -> Splits:
        """Return splits of token blocks. Raises DataError also where the text is too little for the split."""
        from trainwright.trainer.data.text.language import language_splits, read_documents

        files = find_files(self.path, code_root)
        return language_splits(
            read_documents(files, self.separator),
            split,
            source=self.name,
            tokenizer=find_tokenizer(self.tokenizer, code_root),
            block_size=self.block_size,
            split_by=self.split_by,
            files=files,
            masked=self.masked,
            is_packed=self.packed,
        )

    def scan(self, code_root: Path) -> pl.LazyFrame:
        """Return one row for each document."""
        import polars as pl

        from trainwright.trainer.data.text.language import read_documents

        return pl.LazyFrame({"text": read_documents(find_files(self.path, code_root), self.separator)})


def find_tokenizer(tokenizer: str, code_root: Path) -> str | Path:
    """Return a built-in tokenizer's name, or the folder of another. Raises ConfigurationError for neither."""
    if tokenizer in BUILT_IN_TOKENIZERS or TRAINED.fullmatch(tokenizer):
        return tokenizer
    if near := near_matches(tokenizer, BUILT_IN_TOKENIZERS):
        raise ConfigurationError(
            f"`data.args.tokenizer` = {tokenizer!r} is no built-in tokenizer.{near}",
            remedy=f"Built in: {', '.join(BUILT_IN_TOKENIZERS)}; anything else is a folder under code_root.",
        )
    return confine_folder(tokenizer, code_root, key="data.args.tokenizer")


def find_files(path: str | Sequence[str], code_root: Path) -> list[Path]:
    """Return the files of a path, several or patterns, each once, in the order of their names within a pattern."""
    root = code_root.resolve()
    found: list[Path] = []
    for given in [path] if isinstance(path, str) else list(path):
        names = sorted(matching(str(given), root, key=PATH))
        files = [name for name in names if len(names) == 1 or (root / name).is_file()]
        found += [confine(name, code_root, key=PATH) for name in files]
    return list(dict.fromkeys(found))
