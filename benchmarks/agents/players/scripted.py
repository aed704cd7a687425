"""A real server in the user's folder, spoken with over stdio; every answer is kept in a transcript."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, TextContent

from trainwright.server import cli

WORKSPACE, TRANSCRIPT = ".trainwright", "calls.jsonl"


@dataclass
class Session:
    """A connection to the server of a folder."""

    client: Client
    transcript: Path | None

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool, and write the answer down."""
        began = time.monotonic()
        result = await self.client.call_tool(tool, arguments)
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        line = {
            "tool": tool, "arguments": arguments, "seconds": round(time.monotonic() - began, 2),
            "characters": len(text), "is_error": result.is_error, "text": text,
        }  # fmt: skip
        if self.transcript is not None:
            with self.transcript.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        return result


@asynccontextmanager
async def session_in(folder: Path, transcript: Path | None = None) -> AsyncIterator[Session]:
    """Start a server in a folder, with its workspace there, and speak with it."""
    command = ["-P", "-m", cli.__name__, "serve", "--workspace", WORKSPACE]
    parameters = StdioServerParameters(command=sys.executable, args=command, cwd=folder, env=dict(os.environ))
    with Path(os.devnull).open("w") as log:
        async with Client(stdio_client(parameters, errlog=log)) as client:
            yield Session(client, transcript)


def play_calls(folder: Path, calls: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Make calls one after the other on a server in the folder. Raises RuntimeError where one is refused."""

    async def play() -> str:
        async with session_in(folder) as session:
            for tool, arguments in calls:
                result = await session.call(tool, arguments)
                if result.is_error:
                    return f"{tool} was refused: {result.content}"
        return ""

    if refused := anyio.run(play):
        raise RuntimeError(refused)
