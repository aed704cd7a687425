"""A player that makes the call that each answer names, and nothing else: what `next` says is all that it knows.

It begins with a plan of the user's sentence and file. A question is answered by its first option. It stops
where no call is named or only a form of one, where a question has no options, or where a call is answered alike again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent import Call, named_call
from mcp.types import CallToolResult
from task import Task

from players.scripted import TRANSCRIPT, session_in

MOST_CALLS = 60
ENDED = ("completed", "failed", "stopped", "interrupted")
NUMBERS = re.compile(r"[\d.]+ ?s\b|\d{8}-\d{6}-[0-9a-f]{6}")


@dataclass
class Play:
    """What became of one play."""

    task: str
    why: str = ""
    """Why it stopped."""
    calls: list[str] = field(default_factory=list)


async def play(task: Task, folder: Path) -> Play:
    """Play a task that was laid out in a folder."""
    played, seen = Play(task.name), set[tuple[str, str]]()
    async with session_in(folder / "work", folder / TRANSCRIPT) as session:
        tools = {tool.name for tool in (await session.client.list_tools()).tools}
        call: Call | None = Call("plan_training", {"intent": task.sentence, "data": task.data})
        while call is not None and len(played.calls) < MOST_CALLS:
            result = await session.call(call.tool, call.arguments)
            content = result.structured_content or {}
            played.calls.append(str(call))
            state = NUMBERS.sub("", str(content or result.content))
            if (str(call), state) in seen and content.get("state") not in {"running", "waiting", "queued"}:
                played.why = f"{call} was answered alike before"
                return played
            seen.add((str(call), state))
            call = _following(call, result, tools)
            if call is None:
                played.why = str(content.get("message") or content.get("questions") or content.get("reached") or "")
    played.why = played.why or "no call is named"
    return played


def _following(call: Call, result: CallToolResult, tools: set[str]) -> Call | None:
    """Return the call that the answer names, or the same one with the first answer to its questions."""
    content: dict[str, Any] = result.structured_content or {}
    if named := named_call(result, "structured", tools):
        return named
    answers = {each["argument"]: options[0] for each in content.get("questions") or [] if (options := _options(each))}
    return Call(call.tool, {**call.arguments, **answers}) if answers else None


def _options(question: dict[str, Any]) -> list[Any]:
    return list(question.get("options") or question.get("choices") or []) if question.get("argument") else []
