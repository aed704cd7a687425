"""Words with tags as tokens with labels: the first token of a word has its tag's class, all others are ignored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import IGNORED
from trainwright.trainer.data.text.joined import Words, words_by_character
from trainwright.trainer.data.text.row_splits import EncodedRows, Encoding, Ragged, Row, cell_of, row_splits, with_mask
from trainwright.trainer.data.text.tokenizers import LibraryTokenizer, Tokenizer


@dataclass(frozen=True)
class Tagged:
    """A sentence in words, each with its tag."""

    words: list[str]
    tags: list[str]


def tagged_splits(
    rows: Sequence[Row],
    section: SplitSection,
    *,
    words: str,
    tags: str,
    tag_names: Sequence[str] | None,
    max_length: int,
    source: str,
    tokenizer: str | Path,
    files: list[Path],
) -> Splits:
    """Return splits of sentences with a label for each token.

    Raises:
        DataError: a row without words or tags, or with other numbers of them; a number that has no name.
    """
    read = [read_tagged(row, words, tags, tag_names) for row in rows]
    seen = {tag for each in read for tag in each.tags}
    names = list(tag_names or ()) or sorted(
        seen, key=lambda tag: (not tag.isdecimal(), len(tag) * tag.isdecimal(), tag)
    )
    if are_entities({*seen, *names}):
        read = [Tagged(each.words, as_iob2(each.tags)) for each in read]
        names = names_of(as_iob2(names))
    number = {name: place for place, name in enumerate(names)}

    def encode(made: Tokenizer, chosen: Sequence[Tagged]) -> EncodedRows:
        sentences = [encode_words(made, each.words, max_length) for each in chosen]
        labels = [
            first_tokens(places, [number[tag] for tag in each.tags])
            for each, (_, places) in zip(chosen, sentences, strict=True)
        ]
        tokens = Ragged.of((tokens for tokens, _ in sentences), made.padding)
        return EncodedRows({**with_mask(tokens), "labels": Ragged.of(labels, IGNORED)})

    encoding = Encoding("token_classification", lambda each: each.words, encode, class_names=names)
    return row_splits(rows, read, encoding, section, source=source, tokenizer=tokenizer, files=files)


def read_tagged(row: Row, words: str, tags: str, tag_names: Sequence[str] | None) -> Tagged:
    """Return a row's words and tags. Raises DataError where they do not fit each other."""
    place = row[0]
    found, given = (listed_cell(cell_of(row, column, name)) for column, name in ((words, "words"), (tags, "tags")))
    empty = next((number for number, word in enumerate(found) if not isinstance(word, str) or not word.strip()), None)
    if empty is not None:
        raise DataError(
            f"{place}, word {empty + 1} of {words!r} is {found[empty]!r}; a word is a text.",
            remedy="Take it out, with its tag.",
        )
    if len(found) != len(given):
        raise DataError(
            f"{place} has {len(found)} words and {len(given)} tags; each word has one.",
            remedy="Correct the row: words and tags as two lists of one length.",
        )
    return Tagged(found, [_tag(tag, place, tag_names) for tag in given])


def listed_cell(cell: Any) -> list[Any]:
    """Return a cell as a list: a text (of a CSV) holds a list as JSON, or words with blanks between them."""
    if not isinstance(cell, str):
        return list(cell) if isinstance(cell, list | tuple) else [cell]
    if cell.lstrip().startswith("["):
        try:
            listed = json.loads(cell)
        except ValueError:
            return cell.split()
        return listed if isinstance(listed, list) else cell.split()
    return cell.split()


def _tag(tag: Any, place: str, names: Sequence[str] | None) -> str:
    is_number = type(tag) is int
    if is_number and names is not None and 0 <= tag < len(names):
        return str(names[tag])
    if (isinstance(tag, str) and tag and (names is None or tag in names)) or (is_number and names is None):
        return str(tag)
    raise DataError(
        f"{place} has the tag {tag!r}, which is "
        + (f"none of the {len(names)} of data.args.tag_names." if names is not None else "no text or number."),
        remedy="Correct the tag"
        + (", or give data.args.tag_names all names, in the order of their numbers." if names is not None else "."),
    )


def first_tokens(places: Sequence[int | None], labels: Sequence[int]) -> list[int]:
    """Return of each token the label of its word where it is the word's first, else IGNORED."""
    before: int | None = None
    found = []
    for place in places:
        found.append(labels[place] if place is not None and place != before else IGNORED)
        before = place
    return found


def encode_words(tokenizer: Tokenizer, words: Sequence[str], max_length: int) -> Words:
    """Return the tokens of a sentence in words, at most `max_length`, with the tokenizer's marks around it.

    Raises:
        DataError: the tokenizer cannot tell which word a token is of.
    """
    if isinstance(tokenizer, LibraryTokenizer):
        return _by_library(tokenizer, words, max_length)
    return words_by_character(lambda text: tokenizer.encode(text).tolist(), words, max_length)


def _by_library(tokenizer: LibraryTokenizer, words: Sequence[str], max_length: int) -> Words:
    try:
        encoded = tokenizer.inner(list(words), is_split_into_words=True, truncation=True, max_length=max_length)
        return list(encoded["input_ids"]), list(encoded.word_ids())
    except (AssertionError, ValueError) as error:
        raise DataError(
            f"The tokenizer in {tokenizer.folder.name} cannot encode words: {str(error)[:160]}",
            remedy="Save a fast one, of byte pairs with add_prefix_space=True: "
            "AutoTokenizer.from_pretrained(name, add_prefix_space=True).save_pretrained(folder).",
        ) from error


# Tags of words: entities in the field's schemes (IOB1, IOB2, IOBES, BILOU), all brought to IOB2; or plain classes.
#
# Ramshaw and Marcus 1995, arXiv:cmp-lg/9505040; Ratinov and Roth 2009. Class 0 is O, kind k begins with 2k + 1 and goes
# on with 2k + 2, so that entities can be read off class numbers alone.

OUTSIDE = "O"
TAG = re.compile(r"([BIESULM])-(.+)")
BEGINS, GOES_ON = "BSU", "IELM"
"""First letters of tags; a single word (S, U) begins, an end (E, L) goes on."""


def are_entities(tags: Iterable[str]) -> bool:
    """Return whether tags are those of a scheme of entities: O, and letters with a kind behind them."""
    found = set(tags)
    return any(TAG.fullmatch(tag) for tag in found) and all(tag == OUTSIDE or TAG.fullmatch(tag) for tag in found)


def as_iob2(tags: Sequence[str]) -> list[str]:
    """Return a sentence's tags in IOB2: every entity begins with B, also where its scheme began it with I."""
    found: list[str] = []
    before = OUTSIDE
    for tag in tags:
        letter, _, kind = tag.partition("-") if tag != OUTSIDE else (OUTSIDE, "", "")
        goes_on = letter in GOES_ON and before[2:] == kind and before != OUTSIDE
        before = OUTSIDE if letter == OUTSIDE else f"{'I' if goes_on else 'B'}-{kind}"
        found.append(before)
    return found


def names_of(tags: Iterable[str]) -> list[str]:
    """Return the classes of some IOB2 tags by number: O, then B and I of each kind by its name."""
    kinds = sorted({tag[2:] for tag in tags if tag != OUTSIDE})
    return [OUTSIDE, *(f"{letter}-{kind}" for kind in kinds for letter in "BI")]


def is_iob2(class_names: Sequence[str] | None) -> bool:
    """Return whether classes are those of `names_of`."""
    names = list(class_names or ())
    return len(names) > 1 and are_entities(names) and names == names_of(names)
