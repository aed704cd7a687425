"""Options of `trainwright enclose`, for its help and for what `enclose.start` does not read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.server.commands.enclose import run
from trainwright.server.workspace_path import WorkspaceOption


def enclose(  # noqa: PLR0917 - options of a command line
    command: Annotated[
        list[str], typer.Argument(help="An agent's program or shell, after `--`", metavar="-- COMMAND…")
    ],
    workspace: WorkspaceOption = None,
    project: Annotated[
        list[Path] | None, typer.Option(help="Folder that it may write; default: the present one.")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="A further path, as PATH:ro or PATH:rw: the program's settings, say.")
    ] = None,
    port: Annotated[
        list[int] | None, typer.Option(help="TCP port that it may connect to; default: the server's, 8765.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(help="Variable that it gets although it looks like a secret.")
    ] = None,
    *,
    network: Annotated[
        bool, typer.Option("--network", help="Open the whole network: an agent's program needs its API.")
    ] = False,
    only_landlock: Annotated[
        bool, typer.Option("--only-landlock", help="As where there are no user namespaces.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not say what holds.")] = False,
) -> None:
    """Run an agent's program or shell behind a wall: its folders, and not the workspace, keys or other processes.

    What the wall does not cover is said at its start; docs/security.md has the whole of it.
    """
    status = run(
        command,
        workspace=str(workspace) if workspace else None,
        projects=[str(path) for path in project or []],
        allowed=allow or [],
        ports=port or [],
        keeps=env or [],
        network=network,
        only_landlock=only_landlock,
        quiet=quiet,
    )
    raise typer.Exit(status)
