"""Questions with several choices, one of which is right: each choice is encoded beside the question.

As for SWAG (Zellers et al. 2018, arXiv:1808.05326).
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
from trainwright.trainer.data.text.encoded import EncodedRows
from trainwright.trainer.data.text.pairs import encode_pair, fields_of
from trainwright.trainer.data.text.row_splits import Encoding, Row, cell_of, row_splits, text_of
from trainwright.trainer.data.text.tokenizers import Tokenizer


@dataclass(frozen=True)
class Choice:
    """A question, its choices, and the number of the right one."""

    question: str
    choices: list[str]
    right: int


def choice_splits(
    rows: Sequence[Row],
    section: SplitSection,
    *,
    question: str,
    choices: str | Sequence[str],
    answer: str,
    max_length: int,
    source: str,
    tokenizer: str | Path,
    files: list[Path],
) -> Splits:
    """Return splits of questions whose samples are (choices, tokens).

    Raises:
        DataError: a row without choices, with another number of them, or with an answer that is none of them.
    """
    read = [read_choice(row, question, choices, answer) for row in rows]
    count = len(read[0].choices)
    for (place, _), each in zip(rows, read, strict=True):
        if len(each.choices) != count:
            raise DataError(
                f"{place} has {len(each.choices)} choices, and {rows[0][0]} has {count}: a batch has one number of "
                "them.",
                remedy="Give every row as many choices; fill up with wrong ones, or drop the row.",
            )

    def encode(made: Tokenizer, chosen: Sequence[Choice]) -> EncodedRows:
        pairs = [
            encode_pair(made, each.question, choice, max_length, 0)[0] for each in chosen for choice in each.choices
        ]
        labels = torch.tensor([each.right for each in chosen], dtype=torch.int64)
        return EncodedRows(fields_of(made, pairs), {"labels": labels}, texts=count)

    encoding = Encoding("multiple_choice", lambda each: [each.question, *each.choices], encode, outputs=1)
    return row_splits(rows, read, encoding, section, source=source, tokenizer=tokenizer, files=files)


def read_choice(row: Row, question: str, choices: str | Sequence[str], answer: str) -> Choice:
    """Return a row's question. Raises DataError where it has no two choices, or its answer is none of them."""
    asked = text_of(row, question, "question")
    labels: list[Any] = []
    if isinstance(choices, str):
        cell = cell_of(row, choices, "choices")
        labels = list(cell.get("label") or []) if isinstance(cell, Mapping) else []
        found = list(cell.get("text") or []) if isinstance(cell, Mapping) else cell
    else:
        found = [text_of(row, column, "choices") for column in choices]
    if not isinstance(found, list) or len(found) < 2 or not all(isinstance(each, str) and each for each in found):
        raise DataError(
            f"{row[0]} has no two choices in {choices!r}: {str(found)[:80]}.",
            remedy="Give a list of two texts or more, or name a column for each choice: data.args.choices [a, b, c].",
        )
    return Choice(asked, found, _right(row, answer, found, labels))


def _right(row: Row, answer: str, choices: Sequence[str], labels: Sequence[Any]) -> int:
    """Return the number of the right choice, which is given by label, number from 0, letter or text."""
    given = cell_of(row, answer, "answer")
    named = [str(label) for label in labels] or [chr(ord("A") + number) for number in range(len(choices))]
    if str(given) in named:
        return named.index(str(given))
    number = int(given) if type(given) is int or (isinstance(given, str) and given.isdecimal()) else -1
    if 0 <= number < len(choices):
        return number
    if given in choices:
        return list(choices).index(given)
    raise DataError(
        f"{row[0]} has the answer {str(given)[:60]!r}, which is none of its {len(choices)} choices.",
        remedy="Give its number (from 0), its letter (A, B, …), its label or its text.",
    )
