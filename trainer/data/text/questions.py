"""Questions with their context, and the answer as a span of its tokens (extractive question answering).

As for SQuAD (Rajpurkar et al. 2016, arXiv:1606.05250; 2018, arXiv:1806.03822 with questions that have no answer): the
labels are the first and the last token of the answer, both 0, the mark at the beginning, where it has none or where it
lies in another part of a long context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.text.joined import Pair
from trainwright.trainer.data.text.pairs import encode_pair, fields_of
from trainwright.trainer.data.text.row_splits import EncodedRows, Encoding, Row, row_splits, text_of
from trainwright.trainer.data.text.tokenizers import Tokenizer


@dataclass(frozen=True)
class Question:
    """A question with its context, and where the answer is in it."""

    question: str
    context: str
    span: tuple[int, int] | None
    """First character and end; None: there is no answer."""


@dataclass(frozen=True)
class Columns:
    """Names of the columns."""

    question: str
    context: str
    answer: str
    answer_start: str | None


def question_splits(
    rows: Sequence[Row],
    section: SplitSection,
    columns: Columns,
    *,
    max_length: int,
    stride: int,
    source: str,
    tokenizer: str | Path,
    files: list[Path],
) -> Splits:
    """Return splits of questions; all on one context go to the same split. A long one becomes several samples.

    Raises:
        DataError: a row without question or context, or an answer that is not in its context.
    """
    read = [read_question(row, columns) for row in rows]

    def encode(made: Tokenizer, chosen: Sequence[Question]) -> EncodedRows:
        pairs, labels = [], []
        for each in chosen:
            for pair in encode_pair(made, each.question, each.context, max_length, stride):
                pairs.append(pair)
                labels.append(tokens_of(pair, each.span))
        return EncodedRows(fields_of(made, pairs), {"labels": torch.tensor(labels, dtype=torch.int64)})

    encoding = Encoding(
        "question_answering",
        lambda each: [each.question, each.context],
        encode,
        shared=lambda each: [each.context],  # many questions are on one text, which must not be tested on as well
        outputs=2,
    )
    return row_splits(rows, read, encoding, section, source=source, tokenizer=tokenizer, files=files)


def tokens_of(pair: Pair, span: tuple[int, int] | None) -> tuple[int, int]:
    """Return the first and the last token of a span of characters; (0, 0) where it is not all there."""
    if span is None:
        return 0, 0
    inside = [
        number
        for number, place in enumerate(pair.places)
        if place is not None and place[0] < span[1] and place[1] > span[0]
    ]
    there = [place for place in pair.places if place is not None]
    if not inside or there[0][0] > span[0] or there[-1][1] < span[1]:
        return 0, 0
    return inside[0], inside[-1]


def read_question(row: Row, columns: Columns) -> Question:
    """Return a row's question. Raises DataError where its answer is not in its context."""
    question, context = text_of(row, columns.question, "question"), text_of(row, columns.context, "context")
    text, start = _answer(row[1], columns)
    if not text:
        return Question(question, context, None)
    if start is None:
        start = context.find(text)
    if start < 0 or context[start : start + len(text)] != text:
        raise DataError(
            f"{row[0]}: the answer {text[:60]!r} is not in the context{'' if start < 0 else f' at character {start}'}.",
            remedy="Correct the row: an answer is a part of the context, letter by letter; leave it empty where there "
            "is none. Answers in other words are data seq2seq.",
        )
    return Question(question, context, (start, start + len(text)))


def _answer(cells: Mapping[str, Any], columns: Columns) -> tuple[str, int | None]:
    """Return the first answer's text, and its first character where the row says it; an empty text for none."""
    found: Any = cells.get(columns.answer)
    start: Any = cells.get(columns.answer_start or "")
    if isinstance(found, Mapping):  # SQuAD's {text: [...], answer_start: [...]}
        found, start = found.get("text"), found.get("answer_start", start)
    found, start = (value[0] if isinstance(value, list) and value else value for value in (found, start))
    text = found if isinstance(found, str) else ""
    return text, int(start) if isinstance(start, int | str) and str(start).isdecimal() else None
