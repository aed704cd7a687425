"""Documents: read from files, and divided among train, validation and test before anything is measured on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blake3 import blake3

from trainwright.trainer.config.schema import SplitSection
from trainwright.trainer.data.split import split_indices
from trainwright.trainer.errors import DataError

DOCUMENTS_TO_SPLIT_BY = 20
"""With fewer, whole documents are too coarse a measure for the shares of a split."""


def read_documents(paths: Sequence[Path], separator: str | None) -> list[str]:
    """Return the documents of text files: each file one, or as many as `separator` tells apart.

    Raises:
        DataError: a file cannot be read, is no UTF-8, or there is no text in any of them.
    """
    documents: list[str] = []
    for path in paths:
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"{path.name} cannot be read as UTF-8 text: {str(error)[:200]}.",
                remedy="Convert the file to UTF-8, or leave it out of data.args.path.",
            ) from error
        documents += text.split(separator) if separator else [text]
    documents = [document for document in documents if document.strip()]
    if not documents:
        raise DataError("There is no text in the files.", remedy="Point data.args.path at files with text in them.")
    return documents


def divide(documents: Sequence[str], section: SplitSection, split_by: str | None) -> tuple[dict[str, list[str]], str]:
    """Return the texts of each split and how they were divided.

    document: each document goes to one split as a whole, equal documents to the same. position: the beginning of each
    document is for training, then comes validation, its end is for the test.

    Raises:
        DataError: too few documents, or text, for the split.
    """
    way = split_by or ("document" if len(set(documents)) >= DOCUMENTS_TO_SPLIT_BY else "position")
    if way == "document":
        digests = [blake3(document.encode("utf-8")).hexdigest() for document in documents]
        found = split_indices(digests, None, section)
        return {name: [documents[n] for n in chosen] for name, chosen in found.items() if len(chosen)}, way
    splits: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    for document in dict.fromkeys(documents):  # a copy's beginning would be another's end
        size = len(document)
        first = round(size * (1.0 - section.validation - section.test))
        second = round(size * (1.0 - section.test)) if section.test else size
        parts = (document[:first], document[first:second], document[second:])
        for name, part in zip(splits, parts, strict=True):
            splits[name] += [part] if part else []
    return {name: parts for name, parts in splits.items() if parts}, way
