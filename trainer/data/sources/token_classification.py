"""Sentences in words, each word with a tag: names, places and other entities, or parts of speech."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.row_files import RowFiles
from trainwright.trainer.data.sources.source import Name
from trainwright.trainer.data.sources.text_files import Tokens, find_tokenizer

if TYPE_CHECKING:
    import polars as pl

    from trainwright.trainer.data.splits import Splits


class TokenClassification(RowFiles):
    """Sentences whose words have tags; a model gives every token a class."""

    name: ClassVar[str] = "token_classification"

    words: Name = "tokens"
    """Column of the words: a list, or in a table of text a list as JSON, or words with blanks between them."""
    tags: Name = "tags"
    """Column of their tags, as many: texts, or numbers."""
    tag_names: Annotated[list[Name], Field(min_length=2)] | None = None
    """Names of tags that are numbers, from number 0 on."""
    tokenizer: Name = "bytes"
    """bytes, characters, bpe:2000, or a folder with a tokenizer of the Transformers library."""
    max_length: Tokens = 128
    """Tokens to which a sentence is cut."""

    def load(self, code_root: Path, split: SplitSection) -> Splits:
        """Return splits of sentences; the first token of each word has the class of its tag."""
        from trainwright.trainer.data.text.token_labels import tagged_splits

        files, rows = self.rows(code_root)
        return tagged_splits(
            rows,
            split,
            words=self.words,
            tags=self.tags,
            tag_names=self.tag_names,
            max_length=self.max_length,
            source=self.name,
            tokenizer=find_tokenizer(self.tokenizer, code_root),
            files=files,
        )

    def scan(self, code_root: Path) -> pl.LazyFrame:
        """Return one row for each sentence: its words as one text, and how many they are."""
        import polars as pl

        from trainwright.trainer.data.text.token_labels import read_tagged

        found = [read_tagged(row, self.words, self.tags, self.tag_names).words for row in self.rows(code_root)[1]]
        return pl.LazyFrame({"text": [" ".join(words) for words in found], "words": [len(words) for words in found]})
