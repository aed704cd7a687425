"""`trainwright job`: a stage made in a batch job, which a notice stops and the next start resumes."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

from trainwright.server.commands.pipeline import worded_for_file
from trainwright.server.commands.terminal import Terminal
from trainwright.tools.pipeline import read_definition
from trainwright.tools.pipeline.job import STOPPED_CODE, install_settings, run_job
from trainwright.tools.pipeline.writing import apply_definition
from trainwright.tools.training_orchestrator import put_back_all, remove_abandoned
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConflictError


def run_in_batch(path: Path, stage: str, file: Path, settings: Path | None, code_root: Path, *, searches: bool) -> int:
    """Make a stage of the definition's project until it is done or a notice comes; return the exit code.

    Raises TrainwrightError: a decision is due, or something failed.
    """
    notice = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: notice.set())
    terminal, definition = Terminal(), read_definition(file)
    if settings is not None and install_settings(path, settings, code_root):
        terminal.line(f"settings of the workspace: {settings.name}")
    workspace = Workspace.open(path)
    try:
        remove_abandoned(workspace)
        put_back_all(workspace)
        if apply_definition(workspace, definition, code_root):
            terminal.line(f"project {definition.project}: configured as {file.name} has it")
        outcome = run_job(
            workspace, definition.project, stage, searches=searches, notice=notice.is_set, said=terminal.line
        )
    except ConflictError as error:
        raise worded_for_file(error, file) from error
    finally:
        workspace.close()
    terminal.marked("ok" if outcome == "done" else "warn", f"{stage} is {outcome}")
    return 0 if outcome == "done" else STOPPED_CODE
