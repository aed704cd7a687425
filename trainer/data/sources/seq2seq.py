"""Texts with texts to be written from them: summaries, translations, answers in other words."""

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


class Seq2Seq(RowFiles):
    """Pairs of texts; a model reads the one and writes the other."""

    name: ClassVar[str] = "seq2seq"

    text: Name = "text"
    """Column of the texts to read."""
    target: Name = "target"
    """Column of the texts to write."""
    prefix: str = ""
    """Before every text to read, for example `summarize: `."""
    tokenizer: Name = "bytes"
    """bytes, characters, bpe:2000, or a folder with a tokenizer of the Transformers library."""
    max_length: Tokens = 512
    """Tokens to which a text to read is cut."""
    max_target_length: Tokens = 128
    """Tokens to which a text to write is cut."""
    decoder_start: Annotated[int, Field(ge=0, le=2**24)] | None = None
    """Token that the decoder begins with; left out: the padding, as T5 has it (BART: 2)."""

    def load(self, code_root: Path, split: SplitSection) -> Splits:
        """Return splits of pairs: tokens to read, tokens that a decoder sees, and those that it is to say."""
        from trainwright.trainer.data.text.sequences import sequence_splits

        files, rows = self.rows(code_root)
        return sequence_splits(
            rows,
            split,
            text=self.text,
            target=self.target,
            prefix=self.prefix,
            max_length=self.max_length,
            max_target_length=self.max_target_length,
            decoder_start=self.decoder_start,
            source=self.name,
            tokenizer=find_tokenizer(self.tokenizer, code_root),
            files=files,
        )

    def scan(self, code_root: Path) -> pl.LazyFrame:
        """Return one row for each pair."""
        import polars as pl

        from trainwright.trainer.data.text.row_splits import text_of

        rows = self.rows(code_root)[1]
        return pl.LazyFrame({
            "text": [text_of(row, self.text, "text") for row in rows],
            "target": [text_of(row, self.target, "target") for row in rows],
        })  # fmt: skip
