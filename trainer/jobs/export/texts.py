"""Tokenization of texts, as it is shipped with a final model: its options by kind of input, and a learned tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainwright.trainer.base.paths import confine_folder
from trainwright.trainer.data.sources import open_source
from trainwright.trainer.data.sources.chat import Chat
from trainwright.trainer.data.sources.tables import Texts
from trainwright.trainer.data.sources.text_files import Text
from trainwright.trainer.data.sources.text_rows import MultipleChoice, QuestionAnswering, Seq2Seq, TokenClassification
from trainwright.trainer.data.text.language import TextRecord
from trainwright.trainer.data.text.masked import Masking
from trainwright.trainer.data.text.sequences import START, Writing
from trainwright.trainer.data.text.tokenizers import (
    BOUNDARY,
    ByteTokenizer,
    CharacterTokenizer,
    LibraryTokenizer,
    Tokenizer,
    TrainedTokenizer,
)
from trainwright.trainer.data.text.turns import END
from trainwright.trainer.engine.session import Session
from trainwright.trainer.prediction.conversations import rendered_with

TOKENIZER = "tokenizer.json"
MARK = "[MASK]"
"""For a hidden token, where a tokenizer has no text for it."""
Schema = dict[str, Any]
Described = tuple[str, Schema] | None
"""Kind of input and its options; None where it cannot be shipped."""


def tokenization(session: Session, folder: Path) -> Schema | None:
    """Return the kind of input and how it becomes tokens, and write a learned tokenizer into the folder.

    None where texts are no samples by themselves, or their tokenizer or template has no file that others can read: a
    tokenizer that the Transformers library holds in Python alone.
    """
    section, text = session.config.data, session.work.splits.text
    if text is None or section is None:
        return None
    source, made = open_source(section.use, section.args), tokenizer_of(session, text)
    described = next((of(source, made) for kind, of in SOURCES.items() if isinstance(source, kind)), None)
    learned = getattr(getattr(made, "inner", None), "backend_tokenizer", None)
    if described is None or (isinstance(made, LibraryTokenizer) and learned is None):
        return None
    if learned is not None:
        (folder / TOKENIZER).write_text(str(learned.to_str(pretty=True)), encoding="utf-8")
    tokenizer = {key: value for key, value in text.tokenizer.items() if key in {"name", "characters"}}
    start = {"start": text.tokenizer[START]} if START in text.tokenizer else {}
    return {"kind": described[0], "text": {**described[1], **start, "padding": text.padding, "tokenizer": tokenizer}}


def tokenizer_of(session: Session, text: TextRecord) -> Tokenizer:
    """Return the tokenizer that training used, made again from its record."""
    if text.tokenizer["name"] == "bpe":
        merges = (merge.partition(" ")[::2] for merge in text.tokenizer["merges"])
        return TrainedTokenizer(list(merges))
    if text.tokenizer["name"] == "library":
        assert session.config.data is not None, "it has texts"  # noqa: S101
        given = session.config.data.args["tokenizer"]
        return LibraryTokenizer(confine_folder(given, session.context.code_root, key="data.args.tokenizer"))
    characters = text.tokenizer.get("characters")
    return ByteTokenizer() if characters is None else CharacterTokenizer(characters)


def _texts(source: Text | Texts, made: Tokenizer) -> Described:
    if isinstance(source, Texts) and source.target is not None:
        return "text", {"column": source.text, "target": source.target, "max_length": source.max_length}
    if source.masked is None:
        return "prompt", {"block_size": source.block_size, **_marks(made)}
    masking = Masking.of(made, source.masked)
    mark = getattr(getattr(made, "inner", None), "mask_token", None) or MARK
    column = source.text if isinstance(source, Texts) else "text"
    return "masked", {
        "column": column, "block_size": source.block_size, "boundary": made.boundary, "mask": masking.mask,
        "mark": mark,
    }  # fmt: skip


def _words(source: TokenClassification, made: Tokenizer) -> Described:  # noqa: ARG001
    return "words", {"column": source.words, "target": source.tags, "max_length": source.max_length}


def _questions(source: QuestionAnswering, made: Tokenizer) -> Described:  # noqa: ARG001
    names = {"question": source.question, "context": source.context, "target": source.answer}
    return "question", names | {"max_length": source.max_length, "stride": source.stride}


def _choices(source: MultipleChoice, made: Tokenizer) -> Described:  # noqa: ARG001
    names = {"question": source.question, "choices": source.choices, "target": source.answer}
    return "choices", names | {"max_length": source.max_length}


def _sequences(source: Seq2Seq, made: Tokenizer) -> Described:
    return "source", {
        "column": source.text, "target": source.target, "prefix": source.prefix, "max_length": source.max_length,
        "max_target_length": source.max_target_length, "end": Writing.of(made, made.padding).end,
    }  # fmt: skip


def _conversations(source: Chat, made: Tokenizer) -> Described:
    found = {"block_size": source.block_size, "target": "reply", **_marks(made)}
    if type(made) is not LibraryTokenizer:  # whose conversations have a mark before them, and no template
        return "conversation", found | {"begin": [made.boundary], "stop": END.strip()}
    template, names = (
        made.inner.chat_template,
        {key: str(value) for key, value in made.inner.special_tokens_map.items()},
    )
    asked = [{"role": "user", "content": "One?"}]
    said = [*asked, {"role": "assistant", "content": "Two."}]
    try:
        render = rendered_with(template, names)
        whole = made.inner.apply_chat_template(said, tokenize=False)
        is_same = render(said, False) == whole
    except Exception:  # noqa: BLE001 - a template raises what it likes
        return None
    end = whole.rpartition("Two.")[2].strip()
    marks = [int(token) for token in made.encode(end)] if end else []
    stops = {"ends": sorted({*found["ends"], *marks})} if len(marks) == 1 else {"stop": end} if end else {}
    return ("conversation", found | stops | {"begin": [], "template": template, "names": names}) if is_same else None


SOURCES: dict[Any, Callable[[Any, Tokenizer], Described]] = {
    Text: _texts, Texts: _texts, TokenClassification: _words, QuestionAnswering: _questions, MultipleChoice: _choices,
    Seq2Seq: _sequences, Chat: _conversations,
}  # fmt: skip


def _marks(made: Tokenizer) -> Schema:
    """Return the token that goes before each document, and those after which nothing belongs to it any more."""
    if not isinstance(made, LibraryTokenizer):
        return {"boundary": BOUNDARY, "ends": [BOUNDARY]}
    marks = (made.boundary, made.inner.bos_token_id, made.inner.eos_token_id, made.inner.sep_token_id)
    return {"boundary": made.boundary, "ends": sorted({int(mark) for mark in marks if mark is not None})}
