"""Questions with choices, one of which is right."""

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


class MultipleChoice(RowFiles):
    """Questions with as many choices each; a model scores every choice beside its question."""

    name: ClassVar[str] = "multiple_choice"

    question: Name = "question"
    """Column of the questions, or of what a choice goes on with."""
    choices: Name | Annotated[list[Name], Field(min_length=2)] = "choices"
    """Column of the choices: a list of texts, or {text: […], label: […]}; or a column for each choice."""
    answer: Name = "answer"
    """Column of the right one: its number from 0, its letter, its label or its text, alike in every row."""
    tokenizer: Name = "bytes"
    """bytes, characters, bpe:2000, or a folder with a tokenizer of the Transformers library."""
    max_length: Tokens = 128
    """Tokens of a question with one choice; a longer choice is cut."""

    def load(self, code_root: Path, split: SplitSection) -> Splits:
        """Return splits of questions, whose target is the number of the right choice."""
        from trainwright.trainer.data.text.choices import choice_splits

        files, rows = self.rows(code_root)
        return choice_splits(
            rows,
            split,
            question=self.question,
            choices=self.choices,
            answer=self.answer,
            max_length=self.max_length,
            source=self.name,
            tokenizer=find_tokenizer(self.tokenizer, code_root),
            files=files,
        )

    def scan(self, code_root: Path) -> pl.LazyFrame:
        """Return one row for each question: its text, the right choice, and how many choices there are."""
        import polars as pl

        from trainwright.trainer.data.text.choices import read_choices

        found = read_choices(self.rows(code_root)[1], self.question, self.choices, self.answer)
        return pl.LazyFrame({
            "question": [each.question for each in found],
            "right": [each.choices[each.right] for each in found],
            "choices": [len(each.choices) for each in found],
        })  # fmt: skip
