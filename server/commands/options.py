"""Options that several commands share, and the workspace that one means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WorkspaceOption = Annotated[
    Path | None,
    typer.Option("--workspace", "-w", help="Workspace folder; default: TRAINWRIGHT_HOME, else ./.trainwright"),
]


def existing_workspace(path: Path) -> Path:
    """Return a workspace's folder. Raises NotFoundError where there is none."""
    from trainwright.tools.workspace.presence import require_database
    from trainwright.trainer.base.errors import NotFoundError

    require_database(path / "workspace.sqlite")
    if not (path / "workspace.sqlite").is_file():
        raise NotFoundError(
            f"There is no workspace at {path}.",
            remedy="Name one with --workspace DIR or TRAINWRIGHT_HOME; `trainwright demo` creates an example.",
        )
    return path
