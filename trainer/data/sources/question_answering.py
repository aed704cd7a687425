"""Questions whose answers are parts of a text."""

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
    from trainwright.trainer.data.text.questions import Columns


class QuestionAnswering(RowFiles):
    """Questions with contexts; a model tells where in its context an answer begins and ends."""

    name: ClassVar[str] = "question_answering"

    question: Name = "question"
    """Column of the questions."""
    context: Name = "context"
    """Column of the texts that hold the answers."""
    answer: Name = "answers"
    """Column of the answers: a text of the context, or SQuAD's {text: […], answer_start: […]}; empty: there is none."""
    answer_start: Name | None = None
    """Column of an answer's first character, where its text occurs more than once; left out: the first place."""
    tokenizer: Name = "bytes"
    """bytes, characters, bpe:2000, or a folder with a tokenizer of the Transformers library."""
    max_length: Tokens = 384
    """Tokens of question and context together; a longer context becomes several samples."""
    stride: Annotated[int, Field(ge=0, le=2**20)] = 128
    """Tokens that neighbouring samples of one context have in common."""

    def load(self, code_root: Path, split: SplitSection) -> Splits:
        """Return splits of questions, whose targets are the first and the last token of the answer."""
        from trainwright.trainer.data.text.questions import question_splits

        files, rows = self.rows(code_root)
        return question_splits(
            rows,
            split,
            self._columns(),
            max_length=self.max_length,
            stride=self.stride,
            source=self.name,
            tokenizer=find_tokenizer(self.tokenizer, code_root),
            files=files,
        )

    def scan(self, code_root: Path) -> pl.LazyFrame:
        """Return one row for each question: its text, its context, and whether it has an answer."""
        import polars as pl

        from trainwright.trainer.data.text.questions import read_question

        found = [read_question(row, self._columns()) for row in self.rows(code_root)[1]]
        return pl.LazyFrame({
            "question": [each.question for each in found],
            "context": [each.context for each in found],
            "answered": [each.span is not None for each in found],
        })  # fmt: skip

    def _columns(self) -> Columns:
        from trainwright.trainer.data.text.questions import Columns

        return Columns(self.question, self.context, self.answer, self.answer_start)
