"""One walk: an honest project, what happens to it on the way, and playing it by what the answers name alone."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent import Call, named_call, text_of
from mcp.types import CallToolResult
from world import ENDED, World

MOST_CALLS = 45
RUN_ID = re.compile(r"\b[a-z]+-[\w-]*\d{8}-\d{6}-[0-9a-f]{6}\b")
WAITING = frozenset({"run_status", "tuning_status"})
SHOWN_CHARACTERS = 240


@dataclass
class Happening:
    """What somebody else does to the project, once, when its moment has come."""

    name: str
    moment: Callable[[World, Call, CallToolResult], bool]
    """Asked after every call, with the call and its answer."""
    act: Callable[[World], Any]
    new_session: bool = False
    """Whether the server is killed, and a new agent begins with the list of projects."""


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
    afterwards: list[Callable[[World], tuple[str, dict[str, Any]] | None]] = field(default_factory=list)
    """What the user wants of the finished project, in turn; None: nothing that is said to the agent."""
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
        return self.played

    async def _go(self) -> None:
        walk, wishes = self.walk, list(self.walk.afterwards)
        call: Call | None = Call(
            "create_project",
            {"name": walk.name, "intent": f"an honest project: {walk.name}", "goal": walk.goal, "config": walk.config},
        )
        while call is not None:
            if self.played.calls >= MOST_CALLS:
                self.played.why = f"no end after {MOST_CALLS} calls"
                return
            call = await self._step(call)
            if call is None and self.end() and wishes:
                wanted = wishes.pop(0)(self.world)
                call = Call(*wanted) if wanted else Call("project_status", {"project": walk.name})
        self.played.end = self.end() or "stuck"
        if self.played.end not in walk.end:
            self.played.why = f"it ended {self.played.end}" if self.end() else "no call is named, and nothing has ended"
            self.played.end = "stuck"

    async def _step(self, call: Call) -> Call | None:
        before = self.world.state()
        result = await self.world.call(call.tool, call.arguments)
        self.played.calls += 1
        self._judge(call, result, before)
        following = named_call(result, self.played.form, self._tools)
        happening = next((each for each in self._waiting if each.moment(self.world, call, result)), None)
        if happening is None:
            return following
        self._waiting.remove(happening)
        self.world.happened.append(happening.name)
        self.played.lines.append(f"   * {happening.name}")
        if happening.new_session:
            await self.world.close(kill=True)
        happening.act(self.world)
        if happening.new_session:
            await self.world.open()
            return Call("project_status", {})
        return following

    def _judge(self, call: Call, result: CallToolResult, state: str) -> None:
        """Write the call down, and count it where the same was answered alike before and nothing had changed."""
        content, text = result.structured_content or {}, text_of(result)
        line = " ".join(text.split())
        self.played.lines.append(f"   {call}"[:SHOWN_CHARACTERS])
        mark = "!!" if result.is_error else "->"
        self.played.lines.append(f"      {mark} {line}"[: 2 * SHOWN_CHARACTERS])
        is_progress = call.tool in WAITING and str(content.get("state")) not in ENDED
        key = (str(call), state, RUN_ID.sub("RUN", text))
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
    return "released" if status.finished else ""
