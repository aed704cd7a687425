"""Conversations for language models: JSON lines, JSON, Parquet or a folder of Arrow, in the field's formats."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.paths import confine_folder
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.cells import files_of
from trainwright.trainer.data.sources.parquet_file import batches
from trainwright.trainer.data.sources.source import PATH, Files, Name, unreadable
from trainwright.trainer.data.sources.text_files import Tokens, find_files, find_tokenizer

if TYPE_CHECKING:
    import polars as pl

    from trainwright.trainer.data.splits import Splits

Row = tuple[str, dict[str, Any]]
"""A row's place, and its columns."""
TABLES = (".csv", ".tsv")
ENDINGS = ("jsonl", "json", "ndjson", "parquet")


class Chat(Files):
    """Conversations, of which the assistant's messages are learned."""

    name: ClassVar[str] = "chat"

    path: Name | Annotated[list[Name], Field(min_length=1)]
    """Files (jsonl, json, parquet), patterns, or a folder of save_to_disk; each row is a conversation."""
    tokenizer: Name = "bytes"
    """bytes, characters, or a folder with a tokenizer of the Transformers library and its chat template."""
    block_size: Tokens = 1024
    """Tokens that a model sees at once; a longer conversation is cut into several blocks."""

    def load(self, code_root: Path, split: SplitSection) -> Splits:
        """Return splits of token blocks whose targets are the assistant's tokens alone."""
        from trainwright.trainer.data.text.conversations import chat_splits

        files, rows = self._rows(code_root)
        tokenizer = find_tokenizer(self.tokenizer, code_root)
        return chat_splits(rows, split, source=self.name, tokenizer=tokenizer, block_size=self.block_size, files=files)

    def scan(self, code_root: Path) -> pl.LazyFrame:
        """Return one row for each conversation: its text as the built-in tokenizers render it, and its messages."""
        import polars as pl

        from trainwright.trainer.data.text.chat import messages_of, rendered_plainly

        found = [messages_of(row, lambda place=place: place) for place, row in self._rows(code_root)[1]]  # type: ignore[misc]
        texts = ["".join(text for text, _ in rendered_plainly(messages)) for messages in found]
        return pl.LazyFrame({"text": texts, "messages": [len(messages) for messages in found]})

    def _rows(self, code_root: Path) -> tuple[list[Path], list[Row]]:
        """Return the files, and all rows of them. Raises DataError where one is unreadable, or there is no row."""
        if isinstance(self.path, str) and (code_root / self.path).is_dir():
            folder = confine_folder(self.path, code_root, key=PATH)
            files, rows = files_of(folder), list(_of_folder(folder))
        else:
            files = find_files(self.path, code_root)
            rows = [row for file in files for row in _of_file(file)]
        if not rows:
            raise DataError("There is no conversation in the files.", remedy="Point data.args.path at files with rows.")
        return files, rows


def _of_file(file: Path) -> Iterator[Row]:
    if file.suffix.lower() in TABLES:
        raise _of_a_table(file)
    if file.suffix == ".parquet":
        yield from _of_parquet(file)
        return
    try:
        text = file.read_text(encoding="utf-8-sig")
        if file.suffix == ".json":
            listed = json.loads(text)
            rows = (
                [("row", row, value) for row, value in enumerate(listed, start=1)] if isinstance(listed, list) else []
            )
        else:
            lines = enumerate(text.split("\n"), start=1)
            rows = [("line", line, _parsed(file, line, content)) for line, content in lines if content.strip()]
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise unreadable(file, error) from error
    for unit, number, value in rows:
        if not isinstance(value, dict):
            raise DataError(
                f"{file.name} {unit} {number} is a {type(value).__name__}, and not an object.",
                remedy="Give each conversation as an object with `messages`.",
            )
        yield f"{file.name} {unit} {number}", value


def _of_a_table(file: Path) -> DataError:
    """Return the error for a table of text, which names the source that reads it."""
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        columns = next(csv.reader(lines, delimiter="\t" if file.suffix.lower() == ".tsv" else ","), [])
    named = ", ".join(columns)[:200] or "none"
    return DataError(
        f"{file.name} is a table (columns: {named}), and chat reads conversations: {', '.join(ENDINGS)}.",
        remedy=f"To model a column's texts: data {{use: csv, args: {{path: {file.name}, text: COLUMN}}}}, with target: "
        "COLUMN to classify them. For chat, write each row as JSON with `messages`, or `prompt` and `completion`.",
        document="configs/text.md",
    )


def _parsed(file: Path, line: int, content: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{file.name} line {line} is no JSON: {str(error)[:120]}.", remedy="Repair or remove the line."
        ) from error


def _of_parquet(file: Path) -> Iterator[Row]:
    from pyarrow import ArrowException

    number = 0
    try:
        for batch in batches(file):
            for row in batch.to_pylist():
                number += 1
                yield f"{file.name} row {number}", row
    except (OSError, ValueError, ArrowException) as error:
        raise unreadable(file, error) from error


def _of_folder(folder: Path) -> Iterator[Row]:
    from pyarrow import ArrowException

    from trainwright.trainer.data.sources.arrow_folder import rows_of

    try:
        for number, row in enumerate(rows_of(folder), start=1):
            yield f"{folder.name} row {number}", row
    except (OSError, ValueError, KeyError, TypeError, ArrowException) as error:
        raise unreadable(folder, error) from error
