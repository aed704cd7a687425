"""`trainwright connect`: the configuration by which a client finds this server, here, over ssh or over HTTP."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from trainwright.server.workspace_path import WorkspaceOption, workspace_path

Name = Literal["claude-code", "claude-desktop", "cursor", "vscode", "codex", "python"]


def connect(
    client: Annotated[Name, typer.Argument(help="The client")],
    *,
    remote: Annotated[
        str | None, typer.Option("--remote", help="https://NAME/mcp, or ssh://BOX/path/of/the/workspace")
    ] = None,
    printed: Annotated[bool, typer.Option("--print", help="Only the configuration, for a file.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show a client's configuration and the file it belongs into; no token is ever in it."""
    from trainwright.server.http.clients import CLIENTS, Server, configuration

    server = Server.at(remote) if remote is not None else Server.here(workspace_path(workspace))
    if not printed:
        target = CLIENTS[client]
        sys.stderr.write(f"Into {target.file}:\n")
        if server.url is not None:
            sys.stderr.write(f"{target.about_the_token}\n")
    typer.echo(configuration(client, server))
