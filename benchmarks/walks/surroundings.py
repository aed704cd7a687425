"""A folder with the user's files, a workspace beside it, and a real server process on it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult

from trainwright.server import cli

LONGEST_WAIT_SECONDS = 240.0
SERVER = "WALKS_SERVER"
"""Variable with the command that starts a server, as a list in JSON: other than the interpreter with the module."""
ENDED = frozenset({"completed", "failed", "stopped", "interrupted"})


class World:
    """What a walk takes place in. Everything but the tools is here for happenings and for the judge alone."""

    def __init__(self, base: Path, name: str) -> None:
        self.base = base
        self.name = name
        self.code = base / "code"
        self.workspace = base / "workspace"
        self.python = Path(sys.executable)
        self.happened: list[str] = []
        self._session: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()
        self._client: Client | None = None
        self.code.mkdir(parents=True, exist_ok=True)
        self.workspace.mkdir(exist_ok=True)

    async def open(self) -> None:
        """Start a server and speak with it over stdio. Raises what kept it from being opened."""
        self._leaving = asyncio.Event()
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._session = asyncio.create_task(self._hold(opened, self._leaving))
        done, _ = await asyncio.wait({self._session, opened}, return_when=asyncio.FIRST_COMPLETED)
        if self._session in done:
            self._session.result()
        self._client = opened.result()

    async def _hold(self, opened: asyncio.Future[Client], leaving: asyncio.Event) -> None:
        """Hold a connection in a task of its own, from end to end: its cancel scopes are no other task's."""
        given = json.loads(os.environ.get(SERVER, "[]")) or [str(self.python), "-P", "-m", cli.__name__]
        command = [*given, "serve", "--workspace", str(self.workspace)]
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
        with (self.base / "server.log").open("a") as log:
            async with Client(stdio_client(parameters, errlog=log)) as client:
                opened.set_result(client)
                await leaving.wait()

    async def close(self) -> None:
        """Let the server go."""
        if self._session is not None:
            self._leaving.set()
            await asyncio.gather(self._session, return_exceptions=True)  # a killed server's connection ends in an error
        self._session = self._client = None

    def kill_server(self) -> None:
        """Kill the server's process."""
        for process in psutil.Process().children():
            with suppress(psutil.Error):
                if cli.__name__ in process.cmdline():
                    process.send_signal(signal.SIGKILL)

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool."""
        assert self._client is not None, "the server is open"
        return await self._client.call_tool(tool, arguments)

    async def tools(self) -> set[str]:
        """Return the names of the tools."""
        assert self._client is not None, "the server is open"
        return {tool.name for tool in (await self._client.list_tools()).tools}

    def write(self, files: dict[str, str]) -> None:
        """Write files into the user's folder."""
        for name, text in files.items():
            path = self.code / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def state(self) -> str:
        """Return a digest of what runs depend on: the configuration that holds, the user's files, what happened."""
        files = [path for path in sorted(self.code.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
        digests = [[str(path.relative_to(self.code)), hashlib.sha256(path.read_bytes()).hexdigest()] for path in files]
        content = [self.happened, self._configuration(), digests]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]

    def runs(self, *kinds: str) -> list[tuple[str, str]]:
        """Return (id, kind) of the project's runs in order, of these kinds if any are named."""
        query = "SELECT id, kind FROM runs WHERE project = ? ORDER BY created_at"
        return [row for row in self._rows(query) if not kinds or row[1] in kinds]

    def memory_mib(self) -> float:
        """Return the most memory that a run's own process held, as the runs that ended in order record it."""
        found = [json.loads(path.read_bytes()) for path in self.workspace.rglob("summary.json")]
        return max((one.get("peak_memory_bytes") or 0 for one in found), default=0) / 2**20

    def gates(self) -> list[tuple[str, int]]:
        """Return (phase, passed) of all decisions in order."""
        query = (
            "SELECT json_extract(body, '$.phase'), json_extract(body, '$.outcome') != 'refused' FROM ledger "
            "WHERE kind = 'gate' AND project = ? ORDER BY sequence"
        )
        return self._rows(query)

    def requests(self) -> list[str]:
        """Return the ids of what was asked of the owner."""
        from trainwright.tools.owner import requests_of
        from trainwright.tools.workspace import Workspace

        workspace = Workspace.open(self.workspace)
        try:
            with workspace.session() as session:
                return [request.id for request in requests_of(session, workspace, self.name)]
        finally:
            workspace.close()

    def status_of(self, run_id: str) -> dict[str, Any]:
        """Return what a run's worker has written of itself last."""
        with suppress(OSError, ValueError):
            folder = self.workspace / "projects" / self.name / "runs" / run_id
            return dict(json.loads((folder / "status.json").read_text()))
        return {}

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """Wait until the condition holds and return what it gave. Raises TimeoutError."""
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError("what was waited for did not come")
            time.sleep(0.05)
        return found

    def end_runs(self) -> None:
        """Kill what still works on runs of this world: nothing may be left behind."""
        for process in psutil.process_iter(["pid", "cmdline"]):
            with suppress(psutil.Error):
                if any(str(self.base) in part for part in process.info["cmdline"] or []):
                    process.kill()

    def _configuration(self) -> str:
        query = 'SELECT digest FROM config_versions WHERE project = ? ORDER BY "number" DESC LIMIT 1'
        found = self._rows(query)
        return found[0][0] if found else ""

    def _rows(self, query: str) -> list[Any]:
        path = self.workspace / "workspace.sqlite"
        if not path.is_file():
            return []
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
        try:
            return connection.execute(query, (self.name,)).fetchall()
        finally:
            connection.close()
