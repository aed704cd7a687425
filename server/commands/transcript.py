"""Prints what an agent and the server say to each other: tool, arguments, what came back."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

from trainwright.server.commands.terminal import Terminal, bar
from trainwright.server.markdown import call_text

if TYPE_CHECKING:
    from mcp.types import CallToolResult

WIDTH = 116
MOST_LINES = 12


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

    def answer(self, result: CallToolResult, most_lines: int = MOST_LINES) -> None:
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
