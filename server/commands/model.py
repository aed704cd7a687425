"""`trainwright model`: the versions of a project's model, where their files lie, and what is in production."""

from __future__ import annotations

import getpass
from contextlib import closing
from typing import Annotated

import typer

from trainwright.server.workspace_path import WorkspaceOption, existing_workspace, workspace_path

model = typer.Typer(help="Versions of a project's model.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="PROJECT@VERSION, e.g. churn@v2, churn@production or churn@latest")]


@model.command()
def path(name: Name, workspace: WorkspaceOption = None) -> None:
    """Print the folder of a version's final model."""
    from trainwright.tools.registry import model_folder
    from trainwright.tools.workspace import Workspace

    project, _, version = name.partition("@")
    with closing(Workspace.open(existing_workspace(workspace_path(workspace)))) as opened:
        typer.echo(model_folder(opened, project, version or "production"))


@model.command("list")
def show(
    project: Annotated[str, typer.Argument(help="A project")],
    workspace: WorkspaceOption = None,
) -> None:
    """Show the versions, the newest first, with their aliases and figures."""
    from trainwright.tools.registry import list_models
    from trainwright.tools.workspace import Workspace

    with closing(Workspace.open(existing_workspace(workspace_path(workspace)))) as opened:
        listed = list_models(opened, project)
    for one in listed.versions:
        figures = "; ".join(f"{split} {told}" for split, told in one.figures.items())
        named = f" [{', '.join(one.aliases)}]" if one.aliases else ""
        typer.echo(f"v{one.version}{named}  {one.release}  {figures}")
    for move in listed.moves:
        typer.echo(f"  {move}")


@model.command()
def promote(
    name: Name,
    alias: Annotated[str, typer.Argument(help="production, staging, archived, or a word of your own")] = "production",
    reason: Annotated[str, typer.Option("--reason", help="For the ledger")] = "",
    workspace: WorkspaceOption = None,
) -> None:
    """Move an alias to a version, production through its gate; PROJECT@previous leads it back."""
    from trainwright.tools import registry
    from trainwright.tools.workspace import Workspace

    project, _, version = name.partition("@")
    with closing(Workspace.open(existing_workspace(workspace_path(workspace)))) as opened:
        moved = registry.promote(opened, project, version or "latest", alias, why=reason, by=getpass.getuser())
    typer.echo(f"{alias} of {project} is {moved.version}; before: {moved.before or 'none'}.")
