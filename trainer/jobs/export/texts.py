"""Tokenization of texts, as it is shipped with a final model: the transform, its options, the tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.paths import confine_folder
from trainwright.trainer.data.sources import open_source
from trainwright.trainer.data.sources.tables import Texts
from trainwright.trainer.data.sources.text_files import Text
from trainwright.trainer.data.text import transform
from trainwright.trainer.data.text.tokenizers import BOUNDARY, LibraryTokenizer

if TYPE_CHECKING:
    from trainwright.trainer.data.text.language import TextRecord
    from trainwright.trainer.engine.session import Session

TRANSFORM, SCHEMA, TOKENIZER = "transform.py", "schema.json", "tokenizer.json"


def ship_tokenization(session: Session, folder: Path) -> bool:
    """Write transform.py, schema.json and a learned tokenizer into the folder; return whether texts are the model's.

    They are where each sample is a text, and where the model writes on: says the next token of a text.
    A tokenizer that the Transformers library holds in Python alone has no file to ship, and gets none.
    """
    section, text = session.config.data, session.work.splits.text
    if text is None or section is None:
        return False
    source = open_source(section.use, section.args)
    schema: dict[str, Any]
    if isinstance(source, Texts) and source.target is not None:
        schema = {"column": source.text, "target": source.target, "max_length": source.max_length}
    elif isinstance(source, Text | Texts) and source.masked is None:
        schema = {"block_size": source.block_size}
    else:
        return False
    made = _library_tokenizer(session, text)
    if "block_size" in schema:
        schema |= _marks(made)
    tokenizer = {key: value for key, value in text.tokenizer.items() if key in {"name", "characters"}}
    schema |= {"padding": text.padding, "tokenizer": tokenizer}
    (folder / TRANSFORM).write_bytes(Path(transform.__file__).read_bytes())
    (folder / SCHEMA).write_text(json.dumps({"text": schema}, indent=2, ensure_ascii=False), encoding="utf-8")
    if (learned := getattr(getattr(made, "inner", None), "backend_tokenizer", None)) is not None:
        (folder / TOKENIZER).write_text(str(learned.to_str(pretty=True)), encoding="utf-8")
    return True


def _marks(made: LibraryTokenizer | None) -> dict[str, Any]:
    """Return the token that goes before each document, and those after which nothing belongs to it any more."""
    if made is None:
        return {"boundary": BOUNDARY, "ends": [BOUNDARY]}
    marks = (made.boundary, made.inner.bos_token_id, made.inner.eos_token_id, made.inner.sep_token_id)
    return {"boundary": made.boundary, "ends": sorted({int(mark) for mark in marks if mark is not None})}


def _library_tokenizer(session: Session, text: TextRecord) -> LibraryTokenizer | None:
    """Return a tokenizer of the Transformers library, made again from its record; None for bytes and characters."""
    if text.tokenizer["name"] == "bpe":
        from trainwright.trainer.data.text.trained import TrainedTokenizer

        merges = (merge.partition(" ")[::2] for merge in text.tokenizer["merges"])
        return TrainedTokenizer(list(merges))
    if text.tokenizer["name"] == "library" and session.config.data is not None:
        given = session.config.data.args["tokenizer"]
        return LibraryTokenizer(confine_folder(given, session.context.code_root, key="data.args.tokenizer"))
    return None
