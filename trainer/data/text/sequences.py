"""Texts with texts to be written from them: what an encoder reads, and what a decoder is to say (seq2seq).

As T5 is trained (Raffel et al. 2020, arXiv:1910.10683): the decoder sees a start token and the labels up to each one;
labels of a shorter text are filled up with -100, which no loss counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import IGNORED
from trainwright.trainer.data.text.row_splits import EncodedRows, Encoding, Ragged, Row, row_splits, text_of, with_mask
from trainwright.trainer.data.text.tokenizers import BOUNDARY, LibraryTokenizer, Tokenizer

Texts = tuple[str, str]
"""What is read, and what is to be written."""
START = "decoder_start"
"""Key of the tokenizer's record with the token that a decoder begins with."""


@dataclass(frozen=True)
class Writing:
    """What a decoder begins and ends with, and how its tokens become text."""

    start: int
    end: int
    padding: int
    decode: Callable[[list[int]], str]

    @classmethod
    def of(cls, tokenizer: Tokenizer, start: int) -> Writing:
        """Return the writing of a tokenizer; without a mark for the end, the one that separates texts ends one."""
        if not isinstance(tokenizer, LibraryTokenizer):
            return cls(start, BOUNDARY, tokenizer.padding, tokenizer.decode)
        ends = (tokenizer.inner.eos_token_id, tokenizer.inner.sep_token_id)
        end = next((int(token) for token in ends if token is not None), tokenizer.padding)
        return cls(start, end, tokenizer.padding, tokenizer.decode)


@dataclass(eq=False)
class WrittenRows(EncodedRows):
    """Encoded rows whose labels are texts to be written."""

    writing: Writing | None = None


def sequence_splits(
    rows: Sequence[Row],
    section: SplitSection,
    *,
    text: str,
    target: str,
    prefix: str,
    max_length: int,
    max_target_length: int,
    decoder_start: int | None,
    source: str,
    tokenizer: str | Path,
    files: list[Path],
) -> Splits:
    """Return splits of pairs of texts; equal texts to read go to the same split.

    Raises:
        DataError: a row without one of its texts, or too few rows for the split.
    """
    read = [(prefix + text_of(row, text, "text"), text_of(row, target, "target")) for row in rows]
    starts: list[int] = []

    def encode(made: Tokenizer, chosen: Sequence[Texts]) -> EncodedRows:
        start = start_of(made, decoder_start)
        starts.append(start)
        inputs = Ragged.of((made.encode_whole(given, max_length).tolist() for given, _ in chosen), made.padding)
        wanted = [written(made, answer, max_target_length) for _, answer in chosen]
        seen = Ragged.of(([start, *labels[:-1]] for labels in wanted), made.padding)
        fields = {**with_mask(inputs), "decoder_input_ids": seen, "labels": Ragged.of(wanted, IGNORED)}
        return WrittenRows(fields, writing=Writing.of(made, start))

    encoding = Encoding("seq2seq_lm", list[str], encode)
    splits = row_splits(rows, read, encoding, section, source=source, tokenizer=tokenizer, files=files)
    assert splits.text is not None, "of texts"  # noqa: S101
    return replace(splits, text=replace(splits.text, tokenizer={**splits.text.tokenizer, START: starts[0]}))


def start_of(tokenizer: Tokenizer, given: int | None) -> int:
    """Return the token that a decoder begins with: as given, else the padding (as T5 has it), or a document's mark."""
    if given is not None:
        return given
    return tokenizer.padding if isinstance(tokenizer, LibraryTokenizer) else BOUNDARY


def written(tokenizer: Tokenizer, text: str, max_length: int) -> list[int]:
    """Return the tokens to write for a text, with the mark at its end; at most `max_length`."""
    if isinstance(tokenizer, LibraryTokenizer):
        return [int(token) for token in tokenizer.encode_whole(text, max_length)]
    return [*tokenizer.encode(text).tolist()[: max_length - 1], BOUNDARY]
