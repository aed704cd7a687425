"""An agent's client at work: it speaks MCP over stdio with a real server and follows what the answers propose.

Nothing here is a mock: the server is a subprocess, the client is the official one. The demonstration and the example
projects are driven by it.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from trainwright.server.commands.terminal import Terminal, bar
from trainwright.server.markdown import call_text

if TYPE_CHECKING:
    from mcp.types import CallToolResult

# Prints what an agent and the server say to each other: tool, arguments, what came back.

WIDTH = 116
MAX_LINES = 12


class Transcript:
    """Writes the conversation: colours and a moving bar on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self._terminal = Terminal()

    def heading(self, text: str) -> None:
        """Begin a part."""
        self._terminal.line(f"\n== {text} ".ljust(WIDTH, "="), "bold")

    def say(self, text: str) -> None:
        """Write what the agent thinks."""
        self._wrapped(text, "# ", "dim")

    def call(self, tool: str, arguments: dict[str, Any]) -> None:
        """Write a call."""
        self._wrapped(call_text(tool, arguments), "-> ", "cyan")

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Show how far a wait is; only a terminal shows it, and the answer's line replaces it."""
        if self._terminal.is_terminal:
            sys.stdout.write(f"\r   {bar(progress, total)} {message or '':60.60}")
            sys.stdout.flush()

    def answer(self, result: CallToolResult, most_lines: int = MAX_LINES) -> None:
        """Write what came back: refusals in red; lines beyond the most are counted."""
        if self._terminal.is_terminal:
            sys.stdout.write("\r\033[K")
        text = "\n".join(block.text for block in result.content if block.type == "text")
        lines = [line for line in text.splitlines() if line]
        for line in lines[:most_lines]:
            self._wrapped(line, "<- REFUSED " if result.is_error and line is lines[0] else "<- ", _style(result, line))
        if len(lines) > most_lines:
            self._wrapped(f"(and {len(lines) - most_lines} more lines)", "<- ", "dim")

    def fact(self, text: str, style: str = "green") -> None:
        """Write a line as it is."""
        self._terminal.line(text, style)

    def _wrapped(self, text: str, mark: str, style: str) -> None:
        for line in textwrap.wrap(text, WIDTH, initial_indent=mark, subsequent_indent="   ") or [mark]:
            self._terminal.line(line, style)


def _style(result: CallToolResult, line: str) -> str:
    if line.startswith(("Next:", "Remedy:", "Document:")):
        return "yellow"
    return "red" if result.is_error else "green"


MAX_CALLS = 80


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
        for _ in range(MAX_CALLS):
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
        raise UnexpectedAnswerError(f"the project did not end within {MAX_CALLS} calls.")

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
