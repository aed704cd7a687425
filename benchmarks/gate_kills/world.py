"""The workspace whose servers are killed, a real server over stdio, and calls to it."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from mcp import Client, StdioServerParameters

from trainwright.server import cli
from trainwright.trainer.base.canonical import digest_file

PROJECT = "killed"
CONFIG: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [16]}},
    "data": {"use": "digits"},
    "optimizer": {"learning_rate": 0.0005},
    "training": {"epochs": 6},
    "logging": {"tensorboard": False},
    "search": {
        "trials": 2,
        "method": "random",
        "space": {"optimizer.learning_rate": {"type": "categorical", "choices": [0.01, 0.02]}},
    },
}
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.999}
"""Out of reach, so that no optimization is skipped: each rests on a search of its own, confirmed on repeated seeds."""
RATES = (0.0005, 0.0006)
Call = dict[str, Any]


class World:
    """The workspace, as someone sees it who reads its database and its files, and no server."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "workspace"
        self.project = self.path / "projects" / PROJECT

    def entries(self) -> list[tuple[int, str, dict[str, Any]]]:
        """Return the ledger's gate and diagnosis entries: (sequence, kind, body)."""
        query = "SELECT sequence, kind, body FROM ledger WHERE kind IN ('gate', 'diagnosis') ORDER BY sequence"
        return [(number, kind, json.loads(body)) for number, kind, body in self.read(query)]

    def artifact_problems(self) -> list[str]:
        """Return the artifacts that are not as the newest accepted entry of each phase names them."""
        newest = {
            body.get("phase", "diagnostics"): body["artifacts"] for _, _, body in self.entries() if body["artifacts"]
        }
        named = {name: digest for artifacts in newest.values() for name, digest in artifacts.items()}
        paths = {name: self.project / name for name in named}
        return [name for name, path in paths.items() if not path.is_file() or digest_file(path) != named[name]]

    def read(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the database."""
        connection = sqlite3.connect(self.path / "workspace.sqlite")
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()


@asynccontextmanager
async def server(world: World) -> AsyncIterator[tuple[Client, psutil.Process]]:
    """Start a server as an agent's client does, and give the client and the server's process."""
    arguments = ["-P", "-m", cli.__name__, "serve", "--workspace", str(world.path)]
    before = set(psutil.Process().children())
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(parameters) as client:
        [process] = set(psutil.Process().children()) - before
        yield client, process


def configured(changes: dict[str, Any]) -> Call:
    """Return the call that changes the configuration; a project that is finished begins its next release."""
    return {"tool": "configure", "arguments": {"project": PROJECT, "changes": changes, "begin_release": True}}


async def call(client: Client, asked: Call) -> dict[str, Any]:
    """Call a tool that must succeed, and return its answer."""
    result = await client.call_tool(asked["tool"], asked["arguments"])
    if result.is_error or result.structured_content is None:
        raise RuntimeError(f"{asked}: {result.content}")
    return dict(result.structured_content)
