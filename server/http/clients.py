"""Clients and the form in which each is told of a server; none of the forms holds a token.

Sources: the documentation of each client on MCP servers, as of November 2026.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from trainwright.trainer.base.errors import ConfigurationError

NAME = "trainwright"
VARIABLE = "TRAINWRIGHT_TOKEN"
ASKED = "trainwright-token"


@dataclass(frozen=True)
class Server:
    """A server as a client reaches it: by a command that it starts, or by an address."""

    command: str = ""
    args: tuple[str, ...] = ()
    url: str | None = None

    @classmethod
    def here(cls, workspace: Path) -> Server:
        """Return the server that a client on this machine starts."""
        program = Path(sys.executable).with_name("trainwright")
        return cls(str(program), ("serve", "--workspace", str(workspace.expanduser().resolve())))

    @classmethod
    def at(cls, remote: str) -> Server:
        """Return a server on another machine, by `https://…` or `ssh://[user@]box[:port][/workspace]`.

        Raises:
            ConfigurationError: it is neither, or holds a password.
        """
        parts = urlsplit(remote)
        if parts.hostname and parts.password is None and parts.scheme == "ssh":
            box = f"{parts.username}@{parts.hostname}" if parts.username else parts.hostname
            port = ("-p", str(parts.port)) if parts.port else ()
            path = unquote(parts.path)
            place = ("--workspace", shlex.quote(path)) if path.strip("/") else ()
            if not box.startswith("-"):
                return cls("ssh", (*port, box, "trainwright", "serve", *place))
        if parts.hostname and parts.username is None and parts.scheme in {"http", "https"}:
            return cls(url=remote if parts.path.strip("/") else f"{remote.rstrip('/')}/mcp")
        raise ConfigurationError(
            f"{remote.rpartition('@')[2][:120]!r} is no address of a server.",
            remedy="--remote https://box.example.org/mcp, or --remote ssh://box/path/of/the/workspace",
        )

    def entry(self, reference: str, **more: str) -> dict[str, Any]:
        """Return what most clients write of a server; the token is referred to."""
        if self.url is None:
            return {"command": self.command, "args": list(self.args)}
        return {**more, "url": self.url, "headers": {"Authorization": f"Bearer {reference}"}}


class Form(NamedTuple):
    """How one client is told of a server."""

    file: str
    about_the_token: str
    write: Callable[[Server], str]


def configuration(client: str, server: Server) -> str:
    """Return a client's configuration as the text of its file."""
    return CLIENTS[client].write(server)


def _json(value: object) -> str:
    return json.dumps(value, indent=2)


def _claude_code(server: Server) -> str:
    return _json({"mcpServers": {NAME: server.entry(f"${{{VARIABLE}}}", type="http")}})


def _claude_desktop(server: Server) -> str:
    """Its file knows commands only; mcp-remote is the bridge that its documentation names."""
    if server.url is None:
        return _json({"mcpServers": {NAME: server.entry("")}})
    header = f"Authorization: Bearer ${{{VARIABLE}}}"
    bridge = {"command": "npx", "args": ["-y", "mcp-remote", server.url, "--header", header]}
    return _json({"mcpServers": {NAME: {**bridge, "env": {VARIABLE: "PUT THE TOKEN HERE"}}}})


def _cursor(server: Server) -> str:
    return _json({"mcpServers": {NAME: server.entry(f"${{env:{VARIABLE}}}")}})


def _vscode(server: Server) -> str:
    if server.url is None:
        return _json({"servers": {NAME: {"type": "stdio", **server.entry("")}}})
    asked = {"type": "promptString", "id": ASKED, "description": "Token of Trainwright", "password": True}
    return _json({"inputs": [asked], "servers": {NAME: server.entry(f"${{input:{ASKED}}}", type="http")}})


def _codex(server: Server) -> str:
    """TOML; its basic strings are written as JSON's."""
    if server.url is None:
        lines = [f"command = {json.dumps(server.command)}", f"args = {json.dumps(server.args)}"]
    else:
        lines = [f"url = {json.dumps(server.url)}", f"bearer_token_env_var = {json.dumps(VARIABLE)}"]
    return "\n".join([f"[mcp_servers.{NAME}]", *lines])


def _python(server: Server) -> str:
    if server.url is None:
        made = f"StdioServerParameters(command={server.command!r}, args={list(server.args)!r})"
        return _PYTHON.format(imports="from mcp import Client, StdioServerParameters", server=made)
    return _PYTHON_HTTP.format(variable=VARIABLE, url=server.url)


_PYTHON = """\
import asyncio

{imports}


async def main():
    async with Client({server}) as client:
        print((await client.call_tool("project_status", {{}})).structured_content)


asyncio.run(main())"""
_PYTHON_HTTP = """\
import asyncio
import os

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main():
    headers = {{"Authorization": f"Bearer {{os.environ['{variable}']}}"}}
    async with httpx2.AsyncClient(headers=headers, timeout=300) as http:
        async with Client(streamable_http_client({url!r}, http_client=http)) as client:
            print((await client.call_tool("project_status", {{}})).structured_content)


asyncio.run(main())"""

EXPORTED = f"The token comes from {VARIABLE} in the environment in which the client starts."
CLIENTS = {
    "claude-code": Form(".mcp.json of the project", EXPORTED, _claude_code),
    "claude-desktop": Form(
        "claude_desktop_config.json (Settings, Developer, Edit Config)",
        "This client reads no variables, so the token would stand in its file: prefer --remote ssh://BOX.",
        _claude_desktop,
    ),
    "cursor": Form(".cursor/mcp.json of the project, or ~/.cursor/mcp.json", EXPORTED, _cursor),
    "vscode": Form(".vscode/mcp.json", "VS Code asks for the token once and keeps it safe.", _vscode),
    "codex": Form("~/.codex/config.toml", EXPORTED, _codex),
    "python": Form("a script", EXPORTED, _python),
}
