"""A real server over HTTP on a free port, in a thread of this process, and clients of both eras."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tests.server.conftest import IRIS, Agent

from trainwright.server.http.serving import HttpServer, Reach
from trainwright.server.http.tokens import Tokens

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


class Served:
    """A server that runs, its workspace and its tokens by name."""

    def __init__(self, workspace: Path, address: str) -> None:
        self.workspace, self.address = workspace, address
        self.tokens = Tokens(workspace)
        self.secrets: dict[str, str] = {}

    def token(self, name: str, scope: Any = "operate", *projects: str, days: float = 1) -> str:
        """Make a token of this name, once."""
        if name not in self.secrets:
            self.secrets[name] = self.tokens.new(name, scope, projects, days)
        return self.secrets[name]

    @asynccontextmanager
    async def agent(self, token: str, **options: Any) -> AsyncIterator[Agent]:
        """Connect a client with this token."""
        async with (
            create_mcp_http_client({"Authorization": f"Bearer {token}"}) as http,
            Client(streamable_http_client(self.address, http_client=http), **options) as client,
        ):
            yield Agent(client)

    def post(self, token: str | None = None, body: Any = LIST, **headers: str) -> httpx.Response:
        """Send one message of the older revisions as it is."""
        given = {**HEADERS, **({"Authorization": f"Bearer {token}"} if token else {}), **headers}
        return httpx.post(self.address, json=body, headers=given)


@contextmanager
def serving(workspace: Path, reach: Reach | None = None, **options: Any) -> Iterator[Served]:
    """Serve a workspace in a thread."""
    server = HttpServer(workspace, reach or Reach(), **options)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield Served(workspace, server.address)
    finally:
        server.stop()
        thread.join(30)


OpenAgent = Callable[..., AbstractAsyncContextManager[Agent]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of a file."""
    with serving(tmp_path_factory.mktemp("served") / "workspace") as found:
        yield found


@pytest.fixture
async def projects(served: Served) -> tuple[str, str]:
    """Two projects on the server."""
    async with served.agent(served.token("maker")) as agent:
        listed = (await agent.get("project_status"))["projects"]
        for name in {"first", "second"} - {project["project"] for project in listed}:
            await agent.project(name, IRIS)
    return "first", "second"
