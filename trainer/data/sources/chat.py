"""Conversations for language models: JSON lines, JSON, Parquet or a folder of Arrow, in the field's formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.csv_file import CsvTexts
from trainwright.trainer.data.sources.row_files import TABLES, RowFiles
from trainwright.trainer.data.sources.source import Name
from trainwright.trainer.data.sources.text_files import Tokens, find_tokenizer

if TYPE_CHECKING:
    import polars as pl

    from trainwright.trainer.data.splits import Splits

ENDINGS = ("jsonl", "json", "ndjson", "parquet")


class Chat(RowFiles):
    """Conversations, of which the assistant's messages are learned."""

    name: ClassVar[str] = "chat"

    tokenizer: Name = "bytes"
    """bytes, characters, or a folder with a tokenizer of the Transformers library and its chat template."""
    block_size: Tokens = 1024
    """Tokens that a model sees at once; a longer conversation is cut into several blocks."""
    packed: bool = False
    """Fill a block with several conversations that do not see each other. For causal models of the Transformers
    library."""

    def load(self, code_root: Path, split: SplitSection) -> Splits:
        """Return splits of token blocks whose targets are the assistant's tokens alone."""
        from trainwright.trainer.data.text.chat import chat_splits

        files, rows = self.rows(code_root)
        tokenizer = find_tokenizer(self.tokenizer, code_root)
        return chat_splits(
            rows,
            split,
            source=self.name,
            tokenizer=tokenizer,
            block_size=self.block_size,
            files=files,
            is_packed=self.packed,
        )

    def scan(self, code_root: Path) -> pl.LazyFrame:
        """Return one row for each conversation: its text as the built-in tokenizers render it, and its messages."""
        import polars as pl

        from trainwright.trainer.data.text.chat import messages_of
        from trainwright.trainer.data.text.turns import rendered_plainly

        found = [messages_of(row, lambda place=place: place) for place, row in self.rows(code_root)[1]]  # type: ignore[misc]
        texts = ["".join(text for text, _ in rendered_plainly(messages)) for messages in found]
        return pl.LazyFrame({"text": texts, "messages": [len(messages) for messages in found]})

    def require_readable(self, file: Path) -> None:
        """Refuse a table of text. Raises DataError, which names the source that reads it."""
        if file.suffix.lower() in TABLES:
            raise _of_a_table(file)


def _of_a_table(file: Path) -> DataError:
    """Return the error for a table of text, which names the source that reads it."""
    named = ", ".join(CsvTexts(path=file.name, text="*").header_of(file))[:200]
    return DataError(
        f"{file.name} is a table (columns: {named}), and chat reads conversations: {', '.join(ENDINGS)}.",
        remedy=f"To model a column's texts: data {{use: csv, args: {{path: {file.name}, text: COLUMN}}}}, with target: "
        "COLUMN to classify them. For chat, write each row as JSON with `messages`, or `prompt` and `completion`.",
        document="configs/text.md",
    )
