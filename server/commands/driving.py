"""An agent's client at work: it speaks MCP over stdio with a real server and follows what the answers propose.

Nothing here is a mock: the server is a subprocess, the client is the official one. The demonstration and the example
projects are driven by it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from trainwright.server.commands.transcript import Transcript

MOST_CALLS = 80


class UnexpectedAnswerError(Exception):
    """The server answered otherwise than its caller depends on."""


@asynccontextmanager
async def served(workspace: Path, transcript: Transcript) -> AsyncIterator[Client]:
    """Start a server on a workspace, in the folder that holds it, and give a client that is connected to it."""
    command = ["-P", "-m", "trainwright.server.cli", "serve", "--workspace", str(workspace)]
    transcript.fact(f"$ trainwright serve --workspace {workspace}", "dim")
    async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
        yield client


class Driver:
    """Calls tools, prints both sides, and follows what the answers propose."""

    def __init__(self, client: Client, transcript: Transcript) -> None:
        self._client = client
        self._transcript = transcript

    async def call(self, tool: str, /, **arguments: Any) -> CallToolResult:
        """Call a tool and print call and answer."""
        self._transcript.call(tool, arguments)
        result = await self._client.call_tool(tool, arguments, progress_callback=self._transcript.progress)
        self._transcript.answer(result)
        return result

    async def follow(self, answer: dict[str, Any]) -> None:
        """Make the calls that the answers propose until there is none.

        Raises:
            UnexpectedAnswerError: a call is refused, a passed gate is stale at once, or there is no end.
        """
        earlier = None
        for _ in range(MOST_CALLS):
            following = answer.get("next")
            if following is None:
                return
            if following == earlier and following["tool"] == "pass_gate":
                raise UnexpectedAnswerError(
                    "a gate that has passed went stale at once; was something installed just now?"
                )
            earlier = following
            tool, arguments = following["tool"], self.chosen(following["tool"], dict(following["arguments"]))
            answer = content(await self.call(tool, **arguments))
            if tool == "pass_gate":
                self._enter(answer["now_in"])
        raise UnexpectedAnswerError(f"the project did not end within {MOST_CALLS} calls.")

    def chosen(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - for those who choose
        """Return the arguments to call with: those proposed, unless an agent has a choice of its own."""
        return arguments

    def thought(self, phase: str) -> str:  # noqa: ARG002 - for those who think
        """Return what the agent thinks when it enters a phase; may be nothing."""
        return ""

    def _enter(self, phase: str) -> None:
        if phase not in {"baseline", "diagnostics", "optimization", "finalization"}:
            return
        self._transcript.heading(phase)
        if thought := self.thought(phase):
            self._transcript.say(thought)


def content(result: CallToolResult) -> dict[str, Any]:
    """Return an answer's structured content. Raises UnexpectedAnswerError when the call was refused."""
    if result.is_error or result.structured_content is None:
        raise UnexpectedAnswerError("the server refused a call that it relies on (see above).")
    answer: dict[str, Any] = result.structured_content
    return answer


def conclude(transcript: Transcript, workspace: Path, project: str, said: str, *, good: bool, started: float) -> bool:
    """List what is left, verify the workspace, and say how it went; return whether all of it is in order.

    Args:
        said: the result in words.
        started: monotonic seconds when it began.
    """
    from trainwright.tools.verification import verify_workspace

    folder = workspace / "projects" / project
    report = verify_workspace(workspace)
    transcript.heading("what is left")
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and relative.parts[0] in {"final_model", "plots"} | {p.name for p in folder.glob("*.*")}:
            transcript.fact(f"   {relative}", "dim")
    transcript.fact(f"   in {folder}", "dim")
    good = good and not report.problems
    seconds = time.monotonic() - started
    transcript.fact(
        f"{said}; ledger and digests: {len(report.problems)} problems; {seconds:.0f} s.",
        "bold green" if good else "bold red",
    )
    for problem in report.problems:
        transcript.fact(f"   {problem}", "red")
    return good
