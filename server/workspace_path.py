"""Path of the workspace: the one asked for, else TRAINWRIGHT_HOME, else `./.trainwright`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def workspace_path(asked: Path | None = None) -> Path:
    """Return the workspace folder as an absolute path; it need not exist."""
    named = asked or os.environ.get("TRAINWRIGHT_HOME") or ".trainwright"
    return Path(named).expanduser().resolve()


# Options that several commands share, and the workspace that one means.

WorkspaceOption = Annotated[
    Path | None,
    typer.Option("--workspace", "-w", help="Workspace folder; default: TRAINWRIGHT_HOME, else ./.trainwright"),
]


def existing_workspace(path: Path) -> Path:
    """Return a workspace's folder. Raises NotFoundError where there is none."""
    from trainwright.tools.workspace.open_checks import require_database
    from trainwright.trainer.base.errors import NotFoundError

    require_database(path / "workspace.sqlite")
    if not (path / "workspace.sqlite").is_file():
        raise NotFoundError(
            f"There is no workspace at {path}.",
            remedy="Name one with --workspace DIR or TRAINWRIGHT_HOME; `trainwright demo` creates an example.",
        )
    return path
