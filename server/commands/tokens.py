"""`trainwright tokens`: who may come over HTTP, and what they may do."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from trainwright.server.workspace_path import WorkspaceOption, workspace_path

tokens = typer.Typer(help="Tokens that let clients in over HTTP.", no_args_is_help=True)
Scope = Literal["read", "operate", "own"]
NameArgument = Annotated[str, typer.Argument(help="A name of yours: laptop, ci, anna")]


@tokens.command()
def new(
    name: NameArgument,
    scope: Annotated[
        Scope, typer.Option("--scope", help="read, operate (all tools), or own (a person there also grants)")
    ],
    *,
    project: Annotated[
        list[str] | None, typer.Option("--project", help="Only for this project; again for more.")
    ] = None,
    days: Annotated[float, typer.Option("--days", help="Until it expires.")] = 90,
    workspace: WorkspaceOption = None,
) -> None:
    """Make a token and print it, once: only its digest is kept."""
    from trainwright.server.commands.terminal import Terminal
    from trainwright.server.http.tokens import Tokens

    secret = Tokens(workspace_path(workspace)).new(name, scope, tuple(project or ()), days)
    Terminal().line(secret)


@tokens.command("list")
def show(workspace: WorkspaceOption = None) -> None:
    """Show the tokens: name, scope, projects, until when."""
    from trainwright.server.commands.terminal import Terminal
    from trainwright.server.http.tokens import Tokens

    terminal = Terminal()
    kept = Tokens(workspace_path(workspace)).all()
    for token in kept:
        projects = ", ".join(token.projects) or "all projects"
        state = "expired" if token.is_expired else "until"
        mark = "warn" if token.is_expired else "ok"
        terminal.marked(mark, f"{token.name}: {token.scope}, {projects}, {state} {token.expires_at:%Y-%m-%d %H:%M} UTC")
    if not kept:
        terminal.line("There are no tokens.")


@tokens.command()
def revoke(name: NameArgument, workspace: WorkspaceOption = None) -> None:
    """Take a token back; a server that runs refuses it from then on."""
    from trainwright.server.commands.terminal import Terminal
    from trainwright.server.http.tokens import Tokens

    Tokens(workspace_path(workspace)).revoke(name)
    Terminal().marked("ok", f"{name} is revoked.")
