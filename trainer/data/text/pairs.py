"""Pairs of texts as a tokenizer joins them, and where the characters of the second are among the tokens."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.text.joined import Pair, pair_by_character
from trainwright.trainer.data.text.row_splits import Ragged, with_mask
from trainwright.trainer.data.text.tokenizers import LibraryTokenizer, Tokenizer


def encode_pair(tokenizer: Tokenizer, first: str, second: str, max_length: int, stride: int) -> list[Pair]:
    """Return the pair in as many parts as `max_length` tokens ask for, with `stride` tokens of the second in common.

    Raises:
        DataError: the first text leaves no room for the second, or the tokenizer gives no places.
    """
    try:
        if isinstance(tokenizer, LibraryTokenizer):
            return _by_library(tokenizer, first, second, max_length, stride)
        return pair_by_character(lambda text: tokenizer.encode(text).tolist(), first, second, max_length, stride)
    except DataError:
        raise
    except Exception as error:  # the library's, of many kinds
        raise DataError(
            f"{first[:60]!r} and its text cannot be encoded in {max_length} tokens: {str(error)[:160]}",
            remedy="Raise data.args.max_length, lower data.args.stride, or use a fast tokenizer (tokenizer.json).",
        ) from error


def _by_library(tokenizer: LibraryTokenizer, first: str, second: str, max_length: int, stride: int) -> list[Pair]:
    encoded = tokenizer.inner(
        first,
        second,
        truncation="only_second",
        max_length=max_length,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_token_type_ids=True,
    )
    found = []
    for part, tokens in enumerate(encoded["input_ids"]):
        texts, offsets = encoded.sequence_ids(part), encoded["offset_mapping"][part]
        places = [tuple(each) if text == 1 else None for text, each in zip(texts, offsets, strict=True)]
        found.append(Pair(list(tokens), list(encoded["token_type_ids"][part]), places))
    return found


def fields_of(tokenizer: Tokenizer, pairs: Sequence[Pair]) -> dict[str, Ragged]:
    """Return the tokens of pairs with mask, and with token_type_ids where a tokenizer tells the texts apart."""
    fields = with_mask(Ragged.of((pair.tokens for pair in pairs), tokenizer.padding))
    if isinstance(tokenizer, LibraryTokenizer) and any(any(pair.kinds) for pair in pairs):
        fields["token_type_ids"] = Ragged.of((pair.kinds for pair in pairs), 0)
    return fields
