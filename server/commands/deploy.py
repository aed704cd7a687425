"""`trainwright deploy`: a service, a form, a database and clients, generated from a released model."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from trainwright.server.workspace_path import WorkspaceOption, existing_workspace, workspace_path

UNSIGNED = (
    "The model has no model.sig, which every release has: of its files only model.onnx could be compared with what was "
    "released, and that only where evaluation.json names it."
)


def deploy(
    model: Annotated[
        str, typer.Argument(help="A finished project, a version as churn@production, or a folder final_model/")
    ],
    into: Annotated[Path, typer.Option("--into", help="Folder for the parts, each in one of its name.")],
    *,
    parts: Annotated[
        str | None, typer.Option("--as", help="Of service, form, database, client, by commas; default: all.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option("--classes", help="Names of the classes, by commas, where the data gave none.")
    ] = None,
    as_samples: Annotated[
        bool, typer.Option("--as-samples", help="Take rows as your code gave them to the model.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace generated parts there, kept beside as NAME.before.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Generate what puts a released model to use: a FastAPI service, a Next.js form, a Supabase schema, clients."""
    from trainwright.server.commands.terminal import Terminal
    from trainwright.tools.integrations import PARTS, is_signed
    from trainwright.tools.integrations import deploy as write

    names, chosen = (None if given is None else [one.strip() for one in given.split(",")] for given in (classes, parts))
    folder = folder_of(model, workspace)
    terminal = Terminal()
    options = {"as_samples": as_samples, "replace": replace}
    for path in write(folder, into.expanduser(), chosen or PARTS, classes=names, **options):
        terminal.marked(
            "ok", f"{path}: README.md says how to start it{'; what runs is the old one until then' * replace}"
        )
    if not is_signed(folder):
        terminal.marked("warn", UNSIGNED)


def folder_of(model: str, workspace: Path | None) -> Path:
    """Return the folder of a final model, given itself, by its project, or by a version of it. Raises NotFoundError.

    A bare name is a project's, also beside a folder of that name which holds no model (its data and code, say).
    """
    from trainwright.tools.integrations import is_model
    from trainwright.tools.registry import model_folder
    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.records import get_project

    path = Path(model).expanduser()
    if path.is_dir() and ("/" in model or os.sep in model or is_model(path)):
        return path
    project, _, version = model.partition("@")
    with closing(Workspace.open(existing_workspace(workspace_path(workspace)))) as opened:
        if version:
            return model_folder(opened, project, version).parent
        with opened.session() as session:
            get_project(session, project)
        return opened.project_folder(project)
