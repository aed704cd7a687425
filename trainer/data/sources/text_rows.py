"""Rows of texts for models that tag words, write texts, find answers or choose among them: one task a source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.row_files import RowFiles
from trainwright.trainer.data.sources.source import Name
from trainwright.trainer.data.sources.text_files import Tokens, find_tokenizer

if TYPE_CHECKING:
    import polars as pl

    from trainwright.trainer.data.splits import Splits
    from trainwright.trainer.data.text.questions import Columns


class TextRows(RowFiles):
    """Rows with texts, of which a tokenizer makes samples of tokens."""

    tokenizer: Name = "bytes"
    """bytes, characters, bpe:2000, or a folder with a tokenizer of the Transformers library."""

    def _told(self, code_root: Path, files: list[Path], *own: str) -> dict[str, Any]:
        """Return what the splitting of rows is told of them: options of the source's own by name, and what all have."""
        every = {"source": self.name, "tokenizer": find_tokenizer(self.tokenizer, code_root), "files": files}
        return {name: getattr(self, name) for name in own} | every


class TokenClassification(TextRows):
    """Sentences whose words have tags; a model gives every token a class."""

    name: ClassVar[str] = "token_classification"

    words: Name = "tokens"
    """Column of the words: a list, or in a table of text a list as JSON, or words with blanks between them."""
    tags: Name = "tags"
    """Column of their tags, as many: texts, or numbers."""
    tag_names: Annotated[list[Name], Field(min_length=2)] | None = None
    """Names of tags that are numbers, from number 0 on."""
    max_length: Tokens = 128
    """Tokens to which a sentence is cut."""

    def load(self, code_root: Path, split: SplitSection) -> Splits:
        """Return splits of sentences; the first token of each word has the class of its tag."""
        from trainwright.trainer.data.text.token_labels import tagged_splits

        files, rows = self.rows(code_root)
        own = ("words", "tags", "tag_names", "max_length")
        return tagged_splits(rows, split, **self._told(code_root, files, *own))

    def scan(self, code_root: Path) -> pl.LazyFrame:
        """Return one row for each sentence: its words as one text, and how many they are."""
        import polars as pl

        from trainwright.trainer.data.text.token_labels import read_tagged

        found = [read_tagged(row, self.words, self.tags, self.tag_names).words for row in self.rows(code_root)[1]]
        return pl.LazyFrame({"text": [" ".join(words) for words in found], "words": [len(words) for words in found]})


class Seq2Seq(TextRows):
    """Pairs of texts; a model reads the one and writes the other."""

    name: ClassVar[str] = "seq2seq"

    text: Name = "text"
    """Column of the texts to read."""
    target: Name = "target"
    """Column of the texts to write."""
    prefix: str = ""
    """Before every text to read, for example `summarize: `."""
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
        own = ("text", "target", "prefix", "max_length", "max_target_length", "decoder_start")
        return sequence_splits(rows, split, **self._told(code_root, files, *own))

    def scan(self, code_root: Path) -> pl.LazyFrame:
        """Return one row for each pair."""
        import polars as pl

        from trainwright.trainer.data.text.row_splits import text_of

        rows = self.rows(code_root)[1]
        return pl.LazyFrame({
            "text": [text_of(row, self.text, "text") for row in rows],
            "target": [text_of(row, self.target, "target") for row in rows],
        })  # fmt: skip


class QuestionAnswering(TextRows):
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
    max_length: Tokens = 384
    """Tokens of question and context together; a longer context becomes several samples."""
    stride: Annotated[int, Field(ge=0, le=2**20)] = 128
    """Tokens that neighbouring samples of one context have in common."""

    def load(self, code_root: Path, split: SplitSection) -> Splits:
        """Return splits of questions, whose targets are the first and the last token of the answer."""
        from trainwright.trainer.data.text.questions import question_splits

        files, rows = self.rows(code_root)
        return question_splits(rows, split, self._columns(), **self._told(code_root, files, "max_length", "stride"))

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


class MultipleChoice(TextRows):
    """Questions with as many choices each; a model scores every choice beside its question."""

    name: ClassVar[str] = "multiple_choice"

    question: Name = "question"
    """Column of the questions, or of what a choice goes on with."""
    choices: Name | Annotated[list[Name], Field(min_length=2)] = "choices"
    """Column of the choices: a list of texts, or {text: […], label: […]}; or a column for each choice."""
    answer: Name = "answer"
    """Column of the right one: its number from 0, its letter, its label or its text, alike in every row."""
    max_length: Tokens = 128
    """Tokens of a question with one choice; a longer choice is cut."""

    def load(self, code_root: Path, split: SplitSection) -> Splits:
        """Return splits of questions, whose target is the number of the right choice."""
        from trainwright.trainer.data.text.choices import choice_splits

        files, rows = self.rows(code_root)
        own = ("question", "choices", "answer", "max_length")
        return choice_splits(rows, split, **self._told(code_root, files, *own))

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
