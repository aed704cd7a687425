"""Tokenization of texts, as it is shipped with a final model: its options, and a learned tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.paths import confine_folder
from trainwright.trainer.data.sources import open_source
from trainwright.trainer.data.sources.tables import Texts
from trainwright.trainer.data.sources.text_files import Text
from trainwright.trainer.data.text.tokenizers import BOUNDARY, LibraryTokenizer

if TYPE_CHECKING:
    from trainwright.trainer.data.text.language import TextRecord
    from trainwright.trainer.engine.session import Session

TOKENIZER = "tokenizer.json"


def tokenization(session: Session, folder: Path) -> dict[str, Any] | None:
    """Return how texts become tokens, and write a learned tokenizer into the folder; None where no text is a sample.

    They are where each sample is a text, and where the model writes on: says the next token of a text.
    A tokenizer that the Transformers library holds in Python alone has no file to ship, and gets none.
    """
    section, text = session.config.data, session.work.splits.text
    if text is None or section is None:
        return None
    source = open_source(section.use, section.args)
    schema: dict[str, Any]
    if isinstance(source, Texts) and source.target is not None:
        schema = {"column": source.text, "target": source.target, "max_length": source.max_length}
    elif isinstance(source, Text | Texts) and source.masked is None:
        schema = {"block_size": source.block_size}
    else:
        return None
    made = _library_tokenizer(session, text)
    if "block_size" in schema:
        schema |= _marks(made)
    tokenizer = {key: value for key, value in text.tokenizer.items() if key in {"name", "characters"}}
    if (learned := getattr(getattr(made, "inner", None), "backend_tokenizer", None)) is not None:
        (folder / TOKENIZER).write_text(str(learned.to_str(pretty=True)), encoding="utf-8")
    return schema | {"padding": text.padding, "tokenizer": tokenizer}


def _marks(made: LibraryTokenizer | None) -> dict[str, Any]:
    """Return the token that goes before each document, and those after which nothing belongs to it any more."""
    if made is None:
        return {"boundary": BOUNDARY, "ends": [BOUNDARY]}
    marks = (made.boundary, made.inner.bos_token_id, made.inner.eos_token_id, made.inner.sep_token_id)
    return {"boundary": made.boundary, "ends": sorted({int(mark) for mark in marks if mark is not None})}


def _library_tokenizer(session: Session, text: TextRecord) -> LibraryTokenizer | None:
    """Return a tokenizer of the Transformers library, made again from its record; None for bytes and characters."""
    if text.tokenizer["name"] == "bpe":
        from trainwright.trainer.data.text.tokenizers import TrainedTokenizer

        merges = (merge.partition(" ")[::2] for merge in text.tokenizer["merges"])
        return TrainedTokenizer(list(merges))
    if text.tokenizer["name"] == "library" and session.config.data is not None:
        given = session.config.data.args["tokenizer"]
        return LibraryTokenizer(confine_folder(given, session.context.code_root, key="data.args.tokenizer"))
    return None
