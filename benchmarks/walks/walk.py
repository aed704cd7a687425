"""One walk: an honest project, what happens to it on the way, and playing it by what the answers name alone."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from agent import Call, named_call, text_of
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult
from surroundings import ENDED, World

ENVIRONMENT = "WALKS_ENVIRONMENT"
"""Variable with the environment in which the runs are to work; without it they work in the server's own."""
MAX_CALLS = 45
RUN_ID = re.compile(r"\b[a-z]+-[\w-]*\d{8}-\d{6}-[0-9a-f]{6}\b|/[a-z]+-\d+\b|(?<=seconds: )[\d.]+")
WAITING = frozenset({"run_status", "tuning_status"})
SHOWN_CHARACTERS = 240


@dataclass
class Happening:
    """What somebody else does to the project, once, when its moment has come."""

    name: str
    moment: Callable[[World, Call, CallToolResult | None], bool]
    """Asked before every call (of what happens during one), or else after it, with its answer."""
    act: Callable[[World], Any]
    is_during: bool = False
    """Whether it happens while the call is being answered."""
    new_session: bool = False
    """Whether the server is killed, and a new agent begins with the list of projects."""


@dataclass
class Wish:
    """What the user wants at a moment, once: the agent makes this call instead of the one that is named."""

    moment: Callable[[World, Call, CallToolResult | None], bool]
    call: Call


@dataclass
class Walk:
    """An honest project."""

    name: str
    goal: dict[str, Any]
    config: dict[str, Any]
    files: dict[str, str] = field(default_factory=dict)
    happenings: list[Happening] = field(default_factory=list)
    prepare: Callable[[World], None] | None = None
    clean: Callable[[World], None] | None = None
    wishes: list[Wish] = field(default_factory=list)
    afterwards: list[Call] = field(default_factory=list)
    """What the user wants of the finished project, in turn."""
    end: tuple[str, ...] = ("released",)
    """How it may end: released, accepted, concluded."""
    is_quick: bool = False
    missing: Callable[[], str] = str
    """Why it cannot be played on this machine; empty: it can."""


@dataclass
class Played:
    """What a walk came to."""

    walk: str
    form: str
    end: str = "stuck"
    calls: int = 0
    repeated: int = 0
    seconds: float = 0.0
    memory_mib: float = 0.0
    """Most that a run's process held at once, as runs record it."""
    why: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        """Whether the project reached an end that it may have."""
        return self.end != "stuck"

    @property
    def is_fine(self) -> bool:
        """Whether it ended so without a call in vain."""
        return self.has_ended and not self.repeated


class Player:
    """Plays one walk in one form."""

    def __init__(self, walk: Walk, form: str, base: Path) -> None:
        self.walk = walk
        self.world = World(base, walk.name)
        self.played = Played(walk.name, form)
        self._seen: set[tuple[str, str, str]] = set()
        self._waiting = list(walk.happenings)
        self._wishes = list(walk.wishes)
        self._tools: set[str] = set()

    async def play(self) -> Played:
        """Play to the end, or to where it goes no further."""
        began = time.monotonic()
        world, walk = self.world, self.walk
        world.write(walk.files)
        try:
            if walk.prepare is not None:
                walk.prepare(world)
            await world.open()
            self._tools = await world.tools()
            await self._go()
        except (TimeoutError, OSError, AssertionError) as error:
            self.played.why = f"{type(error).__name__}: {error}"
        finally:
            await world.close()
            world.end_runs()
            if walk.clean is not None:
                walk.clean(world)
        self.played.seconds = round(time.monotonic() - began, 1)
        self.played.memory_mib = world.memory_mib()
        return self.played

    async def _go(self) -> None:
        walk, afterwards = self.walk, list(self.walk.afterwards)
        root = {"code_root": self.world.code.name} if walk.files else {}
        named = {"environment": {"python": place}} if (place := os.environ.get(ENVIRONMENT)) else {}
        told = {"name": walk.name, "intent": f"an honest project: {walk.name}", "goal": walk.goal}
        call: Call | None = Call("create_project", {**told, "config": {**root, **named, **walk.config}})
        while call is not None:
            if self.played.calls >= MAX_CALLS:
                self.played.why = f"no end after {MAX_CALLS} calls"
                return
            call = await self._step(call)
            if call is None and afterwards and self.end():
                call = afterwards.pop(0)
        self.played.end = self.end() or "stuck"
        if self.played.end not in walk.end:
            self.played.why = f"it ended {self.played.end}" if self.end() else "no call is named, and nothing has ended"
            self.played.end = "stuck"

    async def _step(self, call: Call) -> Call | None:
        before = self.world.state()
        self.played.calls += 1
        meanwhile = self._what_happens(call, None)
        result = await self._ask(call, meanwhile)
        if result is None:
            return await self._begin_anew()
        self._judge(call, result, before)
        happening = self._what_happens(call, result)
        if happening is not None:
            self._happens(happening)
            await anyio.to_thread.run_sync(happening.act, self.world)
        wish = next((each for each in self._wishes if each.moment(self.world, call, result)), None)
        if wish is not None:
            self._wishes.remove(wish)
            return wish.call
        return named_call(result, self.played.form, self._tools)

    def _what_happens(self, call: Call, result: CallToolResult | None) -> Happening | None:
        found = [each for each in self._waiting if each.is_during is (result is None)]
        return next((each for each in found if each.moment(self.world, call, result)), None)

    def _happens(self, happening: Happening) -> None:
        self._waiting.remove(happening)
        self.world.happened.append(happening.name)
        self.played.lines.append(f"   * {happening.name}")

    async def _ask(self, call: Call, meanwhile: Happening | None) -> CallToolResult | None:
        """Make the call; None where the server was killed before it answered."""
        answers: list[CallToolResult] = []

        async def ask() -> None:
            with suppress(MCPError, OSError, anyio.ClosedResourceError):
                answers.append(await self.world.call(call.tool, call.arguments))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            if meanwhile is not None:
                self.played.lines.append(f"   {call}"[:SHOWN_CHARACTERS])
                self._happens(meanwhile)
                await anyio.to_thread.run_sync(meanwhile.act, self.world)
                if meanwhile.new_session:
                    tasks.cancel_scope.cancel()
        if meanwhile is not None and meanwhile.new_session:
            return None
        return answers[0]

    async def _begin_anew(self) -> Call:
        await self.world.close()
        await self.world.open()
        return Call("project_status", {})

    def _judge(self, call: Call, result: CallToolResult, state: str) -> None:
        """Write the call down, and count it where the same was answered alike before and nothing had changed."""
        content, text = result.structured_content or {}, text_of(result)
        line = " ".join(text.split())
        self.played.lines.append(f"   {call}"[:SHOWN_CHARACTERS])
        mark = "!!" if result.is_error else "->"
        self.played.lines.append(f"      {mark} {line}"[: 2 * SHOWN_CHARACTERS])
        is_progress = call.tool in WAITING and str(content.get("state")) not in ENDED
        key = (RUN_ID.sub("RUN", str(call)), state, RUN_ID.sub("RUN", text))
        if key in self._seen and not is_progress:
            self.played.repeated += 1
            self.played.lines.append("      (in vain: the same as before)")
        self._seen.add(key)

    def end(self) -> str:
        """Return how the project has ended by what the workspace records: released, accepted, concluded; or nothing."""
        return ended(self.world)


def ended(world: World) -> str:
    """Return how a world's project has ended, read by a server's own operations from outside; empty if it has not."""
    from trainwright.tools import projects
    from trainwright.tools.workspace import Workspace

    workspace = Workspace.open(world.workspace)
    try:
        status = projects.project_status(workspace, world.name)
    finally:
        workspace.close()
    assert isinstance(status, projects.ProjectStatus)
    told = status.reached or ""
    if not status.finished:
        return ""
    if "; accepted" in told:
        return "accepted"
    return "concluded" if told.startswith("Goal not reached") else "released"
