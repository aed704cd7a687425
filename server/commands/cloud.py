"""`trainwright cloud`: the files of a job for rented or shared machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainwright.server.commands.terminal import Terminal
from trainwright.tools.clouds import read_cloud_request, render_cloud
from trainwright.tools.workspace import Workspace


def write_cloud(path: Path, folder: Path, **given: Any) -> None:
    """Write the files, and show which check each has passed. Raises TrainwrightError."""
    terminal, request = Terminal(), read_cloud_request(**given)
    workspace = Workspace.open(path)
    try:
        done = render_cloud(workspace, request, folder)
    finally:
        workspace.close()
    for file in done.files:
        terminal.marked("ok", str(file))
    for one in done.checked:
        terminal.line(f"      {one.by}: {'passed' if one.passed else f'not made: {one.said}'}")
    for warning in done.warnings:
        terminal.marked("warn", warning)
    terminal.line(f"Nothing was started. In {done.folder}: {done.start}")
