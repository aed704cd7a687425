"""An agent: a real MCP client over stdio, with a real server as its subprocess."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import MCPError, StdioServerParameters
from mcp.client import Client

from trainwright.server import cli

START_SECONDS = 120


@dataclass(frozen=True)
class Reply:
    """What a tool answered."""

    is_error: bool
    text: str
    content: dict[str, Any]


class Agent:
    """Calls tools one after the other, or several at once."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self._client = client

    def call(self, tool: str, arguments: dict[str, Any]) -> Reply:
        """Call a tool and return its answer; a request that the protocol itself refuses is an error too."""
        return self.begin(tool, arguments).result(START_SECONDS)

    def begin(self, tool: str, arguments: dict[str, Any]) -> Future[Reply]:
        """Send a call without waiting for its answer."""
        return self._portal.start_task_soon(self._call, tool, arguments)

    def read(self, uri: str) -> Reply:
        """Read a resource."""
        return self._portal.call(self._read, uri)

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Reply:
        try:
            result = await self._client.call_tool(tool, arguments)
        except (MCPError, ValueError, RecursionError) as error:  # the last two: the client itself cannot send it
            return Reply(True, f"{type(error).__name__}: {error}", {})
        text = "\n".join(block.text for block in result.content if block.type == "text")
        return Reply(bool(result.is_error), text, dict(result.structured_content or {}))

    async def _read(self, uri: str) -> Reply:
        try:
            result = await self._client.read_resource(uri)
        except MCPError as error:
            return Reply(True, str(error), {})
        return Reply(False, "\n".join(getattr(content, "text", "") for content in result.contents), {})


class Agents:
    """The living agents of a session; their servers end with it.

    Args:
        command: that does what `trainwright` does; none: a fresh interpreter with the package.
    """

    def __init__(self, command: Sequence[str] = ()) -> None:
        self._command = command or (sys.executable, "-P", "-m", cli.__name__)
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._opened: list[ExitStack] = []

    def __enter__(self) -> Self:
        self._portal = self._stack.enter_context(start_blocking_portal())
        return self

    def __exit__(self, *_: object) -> None:
        self.close_all()
        self._stack.close()

    def open(self, workspace: Path, extra: dict[str, str] | None = None) -> Agent:
        """Start a server on the workspace and connect to it."""
        assert self._portal is not None
        command = [*self._command, "serve", "--workspace", str(workspace)]
        environment = {**os.environ, **(extra or {})}
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment)
        opened = ExitStack()
        client = opened.enter_context(self._portal.wrap_async_context_manager(Client(parameters)))
        self._opened.append(opened)
        return Agent(self._portal, client)

    def close_all(self) -> None:
        """End every server."""
        while self._opened:
            self._opened.pop().close()
