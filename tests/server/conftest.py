"""Clients of a real server: in memory, or over stdio with the server as a subprocess."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.types import CallToolResult
from tests.worlds.warm import trainwright_command, warm

from trainwright.server import cli
from trainwright.server.app import build_server

GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
IRIS: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "iris", "expectations": {"without": ["label_errors", "leaks"]}},  # most of a smoke run
    "training": {"epochs": 2},
    "logging": {"tensorboard": False},
}


class Agent:
    """A client with the few habits of an agent."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, /, **arguments: Any) -> CallToolResult:
        """Call a tool."""
        return await self.client.call_tool(tool, arguments)

    async def get(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed, and return its structured answer."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        assert result.structured_content is not None
        return result.structured_content

    async def read(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that must succeed and whose content is the matter, and return its text."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        assert result.structured_content is None, "a client that reads structured content alone would drop the content"
        return text_of(result)

    async def refusal(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that must refuse, check that the server lives on, and return what it said."""
        result = await self.call(tool, **arguments)
        assert result.is_error, result.structured_content
        facts = result.structured_content
        assert facts is not None or "Unknown tool" in text_of(result), "a refusal has its facts in both forms"
        assert not (facts or {}).get("next") or f"{facts['next']['tool']}(" in text_of(result)
        assert not (await self.call("project_status")).is_error, "the server answers no more"
        return text_of(result)

    async def project(self, name: str = "iris", config: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Create a small project."""
        return await self.get("create_project", name=name, intent="a test", goal=GOAL, config=config or IRIS, **more)

    async def ended(self, run_id: str) -> dict[str, Any]:
        """Wait until a run has ended and is filed."""
        for _ in range(6):
            view = await self.get("run_status", run_id=run_id, wait_seconds=50)
            is_filed = view.get("sealed", True) or view["state"] == "interrupted"
            if is_filed and view["state"] not in {"created", "starting", "running"}:
                return view
        raise AssertionError(f"run {run_id} did not end: {view}")


def text_of(result: CallToolResult) -> str:
    """Return all text blocks of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


OpenAgent = Callable[..., AbstractAsyncContextManager[Agent]]


@pytest.fixture(scope="module", autouse=True)
def warm_runs() -> Iterator[None]:
    """Let servers in this process start runs warm; servers of their own start them as they always do."""
    with warm():
        yield


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The folder of a workspace that does not exist yet; the user's code may stand beside it."""
    return tmp_path / "workspace"


@pytest.fixture
def in_memory(workspace: Path) -> OpenAgent:
    """`async with in_memory() as agent`: client and server in this process."""

    @asynccontextmanager
    async def connect(**options: Any) -> AsyncIterator[Agent]:
        async with Client(build_server(workspace), **options) as client:
            yield Agent(client)

    return connect


@pytest.fixture
def serve_command(workspace: Path) -> list[str]:
    """The command that serves the workspace over stdio."""
    return [sys.executable, "-P", "-m", cli.__name__, "serve", "--workspace", str(workspace)]


@pytest.fixture
def over_stdio(serve_command: list[str]) -> OpenAgent:
    """`async with over_stdio() as agent`: the server is a subprocess, as an agent's client starts it."""

    @asynccontextmanager
    async def connect(command: list[str] = serve_command, **options: Any) -> AsyncIterator[Agent]:
        cwd, env = options.pop("cwd", None), options.pop("env", None)
        parameters = StdioServerParameters(command=command[0], args=command[1:], cwd=cwd, env=env)
        async with Client(parameters, **options) as client:
            yield Agent(client)

    return connect


@pytest.fixture
def warm_command(serve_command: list[str]) -> list[str]:
    """The command that serves the workspace in a fork, in the environment that it is called in."""
    return [*trainwright_command(os.environ), *serve_command[-3:]]


@pytest.fixture
def warm_stdio(over_stdio: OpenAgent, warm_command: list[str]) -> OpenAgent:
    """`over_stdio` with a server and runs that are forks: for what does not depend on how an interpreter starts."""
    return partial(over_stdio, warm_command, env=dict(os.environ))


@pytest.fixture
def server_process(workspace: Path) -> Callable[[], psutil.Process]:
    """`server_process()` finds the living server of the workspace among this process's children."""

    def find() -> psutil.Process:
        children = psutil.Process().children(recursive=True)
        return next(child for child in children if {"serve", str(workspace)} <= set(child.cmdline()))

    return find


@pytest.fixture
def text() -> Callable[[CallToolResult], str]:
    """The text of a result."""
    return text_of


@pytest.fixture(scope="session")
def iris() -> dict[str, Any]:
    """A configuration that trains in an instant."""
    return IRIS
