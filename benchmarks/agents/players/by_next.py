"""A player that makes the call that each answer names, and nothing else: what `next` says is all that it knows.

It begins with a plan of the user's sentence and file, or with the project that is there. A question is answered by the
choice that the sentence names, else by the first. It stops where no call is named, where a question has no choices, or
where a call is answered alike again under the same configuration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent import Call, named_call
from task import Task

from players.scripted import TRANSCRIPT, session_in

MAX_CALLS = 60
FORM = re.compile("<[^<>]+>")
"""An argument that is to be filled in."""
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
        plan = Call("plan_training", {"intent": task.sentence, "data": task.data})
        call: Call | None = plan if task.data else Call("project_status", {})
        while call is not None and len(played.calls) < MAX_CALLS:
            result = await session.call(call.tool, call.arguments)
            content = result.structured_content or {}
            played.calls.append(str(call))
            made = (str(call), NUMBERS.sub("", str(content or result.content)))
            if made in seen and "wait" not in {content.get("ended"), content.get("state")}:
                played.why = f"{call} was answered alike before"
                return played
            seen = {made} if call.tool == "configure" and not result.is_error else {*seen, made}
            remedy = named_call(result, "structured", tools) if result.is_error else None
            call = following(content, task.sentence) or remedy
            said = (content.get(name) for name in ("message", "questions", "reason"))
            played.why = str(next(filter(None, said), "no call is named"))
    return played


def following(answer: dict[str, Any], sentence: str) -> Call | None:
    """Return the call that an answer names, its open arguments filled by choices; None where there is none."""
    named = answer.get("next")
    if named is None and answer.get("projects"):
        named = answer["projects"][0].get("next")
    if named is None:
        return None
    choices = {each["argument"]: each.get("choices") or [] for each in answer.get("questions") or []}
    given = dict(named.get("arguments") or {})
    arguments = {name: _filled(value, choices.get(name) or [], sentence) for name, value in given.items()}
    return None if FORM.search(str(arguments)) else Call(named["tool"], arguments)


def _filled(value: Any, choices: list[Any], sentence: str) -> Any:
    """Return a value whose forms, `<metric>` or `<mae|r2>`, are replaced by a choice; one without choices stays."""
    if isinstance(value, dict):
        return {name: _filled(each, choices, sentence) for name, each in value.items()}
    if not FORM.fullmatch(str(value)):
        return value
    listed = choices or str(value)[1:-1].split("|")
    named = [each for each in listed if re.search(rf"\b{re.escape(str(each))}\b", sentence)]
    return value if len(listed) < 2 else (named or listed)[0]
