"""Conversations: read in the field's formats, rendered by the tokenizer's template, the assistant's text as targets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.fingerprint import sample_digest
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.rows import Indices
from trainwright.trainer.data.splits import Splits, split_indices
from trainwright.trainer.data.text.language import splits_of_blocks
from trainwright.trainer.data.text.row_splits import keys_of
from trainwright.trainer.data.text.tokenizers import LibraryTokenizer, build_tokenizer
from trainwright.trainer.data.text.turns import ROLES, Message, Pieces, pieces_of, rendered_plainly

PLAIN_TEMPLATE = "<|ROLE|>\nCONTENT<|end|>\n"
"""Of each message, for the built-in tokenizers, which have no template of their own."""

Where = Callable[[], str]
"""A row's place, for messages: `chats.jsonl line 3`."""


def messages_of(row: Mapping[str, Any], where: Where) -> list[Message]:
    """Return a row's conversation: `messages`, ShareGPT's `conversations`, Alpaca's `instruction`, or `prompt` with
    `completion`.

    Raises:
        DataError: none of these, a role that nobody knows, a message without text, or no answer of the assistant.
    """
    found: Any = row.get("messages", row.get("conversations", row.get("conversation")))
    found = json.loads(found) if isinstance(found, str) and found.lstrip().startswith("[") else found
    if found is None and row.get("instruction"):
        found = _of_instruction(row)
    elif found is None and row.get("prompt") is not None:
        found = _of_prompt(row)
    if not isinstance(found, list) or not found:
        raise DataError(
            f"{where()} holds no conversation; its columns: {', '.join(map(str, row)) or 'none'}.",
            remedy="Give each row `messages: [{role, content}, …]`, `conversations: [{from, value}, …]`, `instruction` "
            "(with input, output), or `prompt` and `completion`.",
        )
    messages = [_message(each, number, where) for number, each in enumerate(found, start=1)]
    if not any(message["role"] == "assistant" for message in messages):
        raise DataError(
            f"{where()} has no message of the assistant, so nothing in it is to be learned.", remedy="Drop the row."
        )
    return messages


def _of_instruction(row: Mapping[str, Any]) -> list[Message]:
    asked = "\n\n".join(str(row[key]) for key in ("instruction", "input") if row.get(key))
    answer = row.get("output", row.get("response"))
    system = [{"role": "system", "content": row["system"]}] if row.get("system") else []
    return [*system, {"role": "user", "content": asked}, {"role": "assistant", "content": answer}]


def _of_prompt(row: Mapping[str, Any]) -> Any:
    prompt, completion = row["prompt"], row.get("completion", row.get("response"))
    if isinstance(prompt, list) and isinstance(completion, list):
        return [*prompt, *completion]
    return [{"role": "user", "content": prompt}, {"role": "assistant", "content": completion}]


def _message(given: Any, number: int, where: Where) -> Message:
    """Return a message with `role` and `content` as text, and what else it holds that a template may read."""
    said = dict(given) if isinstance(given, Mapping) else {}
    role = ROLES.get(str(said.pop("role", None) or said.pop("from", "")).lower())
    content = said.pop("content", None) if "content" in said else said.pop("value", None)
    if isinstance(content, list):
        content = _text_of(content)
    if role is None or not isinstance(content, str) or (role == "assistant" and not content.strip()):
        wrong = "names no known role" if role is None else "has no text"
        raise DataError(
            f"{where()}, message {number} {wrong}: {str(given)[:120]}.",
            remedy=f"Give it a role ({', '.join(sorted(set(ROLES.values())))}) and its text as content; pictures and "
            "calls without text are not rendered.",
        )
    return {"role": role, "content": content} | {key: value for key, value in said.items() if value is not None}


def _text_of(parts: list[Any]) -> str | None:
    """Return the text of a message that comes in parts; None where a part is no text."""
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return "".join(texts) if all(isinstance(text, str) for text in texts) else None  # type: ignore[arg-type]


def rendered_by(tokenizer: LibraryTokenizer, messages: Sequence[Message], where: Where) -> Pieces:
    """Return a conversation as a tokenizer's own chat template renders it.

    What the template writes for an answer, up to the next message and with the mark at its end, is a target; what it
    writes to invite the answer is not.

    Raises:
        DataError: no template, one that refuses the conversation, or one that renders earlier messages otherwise once
            later ones follow.
    """
    if not getattr(tokenizer.inner, "chat_template", None):
        raise DataError(
            f"The tokenizer in {tokenizer.folder.name} has no chat template.",
            remedy="Use a folder with one (chat_template.jinja, or chat_template in tokenizer_config.json), or "
            "`tokenizer: bytes`.",
        )

    def render(said: Sequence[Message], invites: bool) -> str:
        try:
            return str(tokenizer.inner.apply_chat_template(list(said), tokenize=False, add_generation_prompt=invites))
        except Exception as error:  # noqa: BLE001 - a template raises what it likes
            raise DataError(
                f"{where()}: the template of {tokenizer.folder.name} refuses the conversation: {str(error)[:160]}.",
                remedy="Correct the row (many templates want user and assistant in turn), or drop it.",
            ) from None

    try:
        return pieces_of(messages, render)
    except ValueError as error:
        raise DataError(
            f"{where()}, message {error}: the chat template of {tokenizer.folder.name} renders what comes "
            "before an answer otherwise once the answer follows, so where the answer begins is not known.",
            remedy="Keep one answer for each row, or use a template that only adds text at the end.",
        ) from None


# Splits of conversations: divided before anything is measured on them, with the assistant's tokens as targets.


def chat_splits(
    rows: Sequence[tuple[str, dict[str, Any]]],
    section: SplitSection,
    *,
    source: str,
    tokenizer: str | Path,
    block_size: int,
    files: list[Path],
    is_packed: bool = False,
) -> Splits:
    """Return splits of blocks of conversations; equal ones go to the same split.

    Args:
        rows: of each, its place and its columns.

    Raises:
        DataError: a row holds no conversation that can be rendered, or there is too little text for the split.
    """
    library = LibraryTokenizer(tokenizer) if isinstance(tokenizer, Path) else None
    documents = [rendered(place, row, library) for place, row in rows]
    chosen = chosen_rows(rows, documents, section)
    parts = {name: [documents[row] for row in found] for name, found in chosen.items() if len(found)}
    if library is None:
        made = build_tokenizer(tokenizer, ["".join(text for text, _ in pieces) for pieces in parts["train"]])
    else:
        made = library
    template = PLAIN_TEMPLATE if library is None else digest_bytes(str(library.inner.chat_template).encode())
    return splits_of_blocks(
        parts,
        made,
        section,
        source=source,
        block_size=block_size,
        way="document",
        files=files,
        chat_template=template,
        is_packed=is_packed,
    )


def chosen_rows(
    rows: Sequence[tuple[str, dict[str, Any]]], documents: Sequence[Pieces], section: SplitSection
) -> dict[str, Indices]:
    """Return the numbers of the rows of each split; equal conversations are in one. Raises as `chat_splits`."""
    digests = [sample_digest("".join(text for text, _ in pieces)) for pieces in documents]
    return split_indices(digests, None, section, keys_of(rows, section))


def rendered(place: str, row: dict[str, Any], library: LibraryTokenizer | None) -> Pieces:
    """Return a row's conversation as text. Raises DataError where it holds none, or none that can be rendered."""
    messages = messages_of(row, lambda: place)
    return rendered_plainly(messages) if library is None else rendered_by(library, messages, lambda: place)
