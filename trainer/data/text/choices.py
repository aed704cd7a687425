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
from trainwright.trainer.data.text.pairs import encode_pair, fields_of
from trainwright.trainer.data.text.row_splits import EncodedRows, Encoding, Row, cell_of, row_splits, text_of
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
        DataError: a row without choices, with another number of them, or with an answer that is none of them; or
            answers that can be read in two ways.
    """
    read = read_choices(rows, question, choices, answer)
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


def read_choices(rows: Sequence[Row], question: str, choices: str | Sequence[str], answer: str) -> list[Choice]:
    """Return the rows' questions, all answers read in one way.

    Raises:
        DataError: a row without two choices, an answer that is none of them, or answers that can be read in two ways.
    """
    asked = [_asked(row, question, choices, answer) for row in rows]
    return [Choice(each.question, each.choices, right) for each, right in zip(asked, _rights(asked), strict=True)]


@dataclass(frozen=True)
class _Asked:
    """A question whose answer is not read yet."""

    place: str
    question: str
    choices: list[str]
    labels: list[str]
    answer: Any


def _asked(row: Row, question: str, choices: str | Sequence[str], answer: str) -> _Asked:
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
    return _Asked(row[0], asked, found, [str(label) for label in labels], cell_of(row, answer, "answer"))


def _by_label(row: _Asked) -> int | None:
    return row.labels.index(str(row.answer)) if str(row.answer) in row.labels[: len(row.choices)] else None


def _by_letter(row: _Asked) -> int | None:
    letters = [chr(ord("A") + number) for number in range(len(row.choices))]
    return letters.index(row.answer) if row.answer in letters else None


def _by_number(row: _Asked) -> int | None:
    is_number = type(row.answer) is int or (isinstance(row.answer, str) and row.answer.isdecimal())
    return int(row.answer) if is_number and 0 <= int(row.answer) < len(row.choices) else None


def _by_text(row: _Asked) -> int | None:
    return row.choices.index(row.answer) if row.answer in row.choices else None


READINGS = {"label": _by_label, "letter": _by_letter, "number from 0": _by_number, "text": _by_text}
"""Ways to name the right choice. Labels stand in the row itself, and so go before the others."""
WRITE = "Give its number (from 0), its letter (A, B, …), its label or its text, the same for every row."


def _rights(rows: Sequence[_Asked]) -> list[int]:
    """Return the number of each right choice by the one reading that fits every row; several may if they agree."""
    read = {name: [reading(row) for row in rows] for name, reading in READINGS.items()}
    fitting = {name: [each for each in found if each is not None] for name, found in read.items() if None not in found}
    if not fitting:
        raise _unread(rows, read)
    (first, found), *others = fitting.items()
    if first == "label":
        return found
    for name, other in others:
        differing = next(
            (place for place, pair in enumerate(zip(found, other, strict=True)) if pair[0] != pair[1]), None
        )
        if differing is not None:
            row = rows[differing]
            raise DataError(
                f"{row.place} has the answer {row.answer!r} among the choices {str(row.choices)[:80]}: as a {first} "
                f"it is {row.choices[found[differing]]!r}, as a {name} {row.choices[other[differing]]!r}, and no row "
                "tells which is meant.",
                remedy="Write the answers as letters (A, B, …), or give the choices labels: {text: […], label: […]}.",
            )
    return found


def _unread(rows: Sequence[_Asked], read: Mapping[str, Sequence[int | None]]) -> DataError:
    for place, row in enumerate(rows):
        if all(found[place] is None for found in read.values()):
            return DataError(
                f"{row.place} has the answer {str(row.answer)[:60]!r}, which is none of its {len(row.choices)} "
                "choices.",
                remedy=WRITE,
            )
    name, found = next((name, found) for name, found in read.items() if found[0] is not None)
    other = rows[list(found).index(None)]
    return DataError(
        f"{rows[0].place} names the right choice by its {name}, and {other.place} in another way: {other.answer!r}.",
        remedy=WRITE,
    )
