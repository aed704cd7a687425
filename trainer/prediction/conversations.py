"""Conversations that end with a message to the assistant, which answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainwright.trainer.data.text.transform import encoder, learned
from trainwright.trainer.data.text.turns import ROLES, Message, Pieces, Render, pieces_of, rendered_plainly
from trainwright.trainer.prediction.fields import Fields
from trainwright.trainer.prediction.frame import Batch, Sample, WrongInputError
from trainwright.trainer.prediction.texts import prepared_by, text_in

MESSAGES = "messages"


class ConversationRows:
    """Conversations, one by one."""

    takes: ClassVar[str] = (
        "what a user says; or a JSON list of messages (role, content); or files of conversations (.jsonl, .json)"
    )
    stdin: ClassVar[str] = ".txt"

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:
        self.options = schema["text"]
        self.encode = prepared_by(piece_encoder, self.options, folder)
        template = self.options.get("template")
        self.render: Render | None = None if template is None else rendered_with(template, self.options["names"])

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield the tokens of each conversation up to the answer, (1, tokens). Raises WrongInputError."""
        seen = self.options["block_size"]
        for place, row in Fields((MESSAGES,), MESSAGES, is_messages).rows(given):
            messages = messages_in(row[MESSAGES])
            tokens = [*self.options["begin"], *(token for text, _ in self._pieces(messages)
                                                for token in self.encode(text))]  # fmt: skip
            notes = [f"only its last {seen} tokens are seen"] * (len(tokens) > seen)
            sample = Sample(place or {"prompt": messages[-1]["content"]}, notes)
            yield [sample], {"input_ids": np.array([tokens], dtype=np.int64)}

    def _pieces(self, messages: list[Message]) -> Pieces:
        if self.render is None:
            return rendered_plainly(messages, invites=True)
        try:
            return pieces_of(messages, self.render, invites=True)
        except Exception as problem:  # noqa: BLE001 - of a template
            raise WrongInputError(f"The template refuses the conversation: {problem}.", "Give one that ends with the "
                                  "user, user and assistant in turn.") from None  # fmt: skip


def is_messages(value: Any) -> bool:
    """Return whether a value of JSON is a conversation: a text of the user's, or a list of messages."""
    is_list = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    return isinstance(value, str) or (is_list and bool({"role", "from"} & value[0].keys()))


def messages_in(given: Any) -> list[Message]:
    """Return a conversation's messages. Raises WrongInputError for what is none, or where the assistant spoke last."""
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(listed, list) or not listed or not all(isinstance(one, Mapping) for one in listed):
        raise WrongInputError(f"{str(given)[:60]} is no conversation.", "Give a list of {role, content}.")
    found: list[Message] = []
    for number, one in enumerate(listed, start=1):
        said = {"content": one.get("content", one.get("value")), "role": one.get("role") or one.get("from")}
        role = ROLES.get(str(said["role"]).lower())
        if role is None:
            raise WrongInputError(f"message {number}: {said['role']!r} is no role.", f"Roles are {sorted(ROLES)}.")
        found.append({**one, "role": role, "content": text_in({f"message {number}": said["content"]},
                                                              f"message {number}")})  # fmt: skip
    if found[-1]["role"] == "assistant":
        raise WrongInputError("The last message is the assistant's.", "End with a message that it is to answer.")
    return found


def piece_encoder(schema: dict[str, Any], folder: Path) -> Callable[[str], list[int]]:
    """Return the function from a piece of a conversation to its tokens; marks that the template writes are marks."""
    if schema["tokenizer"]["name"] in {"bytes", "characters"}:
        encode = encoder({"tokenizer": schema["tokenizer"]}, folder)
        return lambda text: encode(text)[1:]
    made = learned(folder)
    return lambda text: list(made.encode(text, add_special_tokens=False).ids)


def rendered_with(template: str, names: Mapping[str, str]) -> Render:
    """Return what renders messages by a chat template, as the Transformers library does: Jinja in a sandbox."""
    from datetime import datetime

    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refused(what: str) -> None:
        raise ValueError(what)

    place = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    place.filters["tojson"] = as_json
    place.globals |= {"raise_exception": refused, "strftime_now": datetime.now().astimezone().strftime}
    made = place.from_string(template)
    return lambda said, invites: made.render(
        messages=list(said), add_generation_prompt=invites, tools=None, documents=None, **names
    )


def as_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON, as chat templates write it: without the marks of HTML."""
    import json

    return json.dumps(value, ensure_ascii=False, indent=indent)
