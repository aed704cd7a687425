"""Messages of a conversation as text, in pieces of which the assistant's are its answers: a part of `predict.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

ROLES = {
    "system": "system", "developer": "system", "user": "user", "human": "user", "prompter": "user",
    "assistant": "assistant", "gpt": "assistant", "model": "assistant", "bot": "assistant", "chatgpt": "assistant",
    "tool": "tool", "function": "tool", "observation": "tool", "ipython": "tool",
}  # fmt: skip
"""Names of who speaks in the field's data sets, and the role of each."""
END = "<|end|>\n"
"""Ends each message, for the built-in tokenizers, which have no template of their own."""
Message = dict[str, Any]
Pieces = Sequence[tuple[str, bool]]
"""A document: its text in pieces, each with whether its tokens are targets."""
Render = Callable[[Sequence[Message], bool], str]
"""Text of messages by a template; with what invites the assistant's answer behind them, where that is true."""


def rendered_plainly(messages: Sequence[Message], *, invites: bool = False) -> Pieces:
    """Return a conversation as the built-in tokenizers render it; behind it what invites an answer, where asked."""
    pieces: list[tuple[str, bool]] = []
    for message in messages:
        is_target = message["role"] == "assistant"
        pieces += [(f"<|{message['role']}|>\n", False), (f"{message['content']}{END}", is_target)]
    return merged_pieces([*pieces, *([("<|assistant|>\n", False)] if invites else [])])


def pieces_of(messages: Sequence[Message], render: Render, *, invites: bool = False) -> Pieces:
    """Return a conversation as a template renders it, up to its last answer; where it invites one, up to that.

    Raises:
        ValueError: an answer changes how what is before it is rendered; the number of its message is its argument.
    """
    pieces: list[tuple[str, bool]] = []
    done = ""
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before, after = render(messages[:number], True), render(messages[: number + 1], False)
        if not (before.startswith(done) and after.startswith(before)):
            raise ValueError(number + 1)
        pieces += [(before[len(done) :], False), (after[len(before) :], True)]
        done = after
    if invites:
        pieces.append((render(messages, True)[len(done) :], False))
    return merged_pieces(pieces)


def merged_pieces(pieces: Pieces) -> Pieces:
    """Return the pieces with neighbours of one kind joined: text is tokenized in as few pieces as can be."""
    found: list[tuple[str, bool]] = []
    for text, counts in pieces:
        if found and found[-1][1] == counts:
            found[-1] = (found[-1][0] + text, counts)
        elif text:
            found.append((text, counts))
    return found
